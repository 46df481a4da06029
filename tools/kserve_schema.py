"""Makes tests/data/kserve_schema.json: what KServe's objects may have, from the models of its Python package.

    pip download --no-deps kserve==0.21.0 && python tools/kserve_schema.py kserve-0.21.0-py3-none-any.whl

The package itself would bring pandas, kubernetes and some twenty more into the tests. Its models are
generated from the Go types that the cluster's definitions are made from, too: names and types of fields,
and which of them must be there, are read from their text; nothing is imported. Types of Kubernetes are left
to its own schemas (package kubernetes-validate).
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "kserve_schema.json"
KINDS = {
    "ServingRuntime": "V1alpha1ServingRuntime",
    "ClusterServingRuntime": "V1alpha1ClusterServingRuntime",
    "InferenceService": "V1beta1InferenceService",
}
#: What is not used here, and would bring most of KServe with it: it counts as unknown.
LEFT_OUT = re.compile(
    r"V1(alpha1|beta1)(?!Serving|Cluster|Inference|Predictor|Model|Supported|Storage).*|.*Status|.*List|K8sIo.*"
)
_SIMPLE = {"str": "string", "bool": "boolean", "int": "integer", "float": "number", "object": "object"}
_KUBERNETES = "/api/_definitions.json#/$defs/io.k8s."


def main(wheel: Path) -> int:
    """Writes the file."""
    version = wheel.name.split("-")[1]
    with zipfile.ZipFile(wheel) as archive:
        models = _models(archive)
    definitions: dict[str, Any] = {}
    for name in KINDS.values():
        _define(name, models, definitions)
    source = f"kserve {version} of PyPI, Apache-2.0, The KServe Authors"
    schema = {
        "$comment": f"Made by tools/kserve_schema.py from {source}.",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "/kserve.json",
        "kinds": {kind: {"$ref": f"#/$defs/{name}"} for kind, name in KINDS.items()},
        "$defs": dict(sorted(definitions.items())),
    }
    TARGET.write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(definitions)} types")
    return 0


def _models(archive: zipfile.ZipFile) -> dict[str, tuple[dict[str, str], list[str]]]:
    """Of each class: the types of its fields by their names in JSON, and those that must be there."""
    found = {}
    for path in archive.namelist():
        if not re.fullmatch(r"kserve/models/\w+\.py", path):
            continue
        text = archive.read(path).decode()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and (tables := _tables(node)):
                names = tables["attribute_map"]
                types = {names[key]: kind for key, kind in tables["openapi_types"].items()}
                needed = [names[key] for key in re.findall(r"for `(\w+)`, must not be `None`", text)]
                found[node.name] = (types, needed)
    return found


def _tables(node: ast.ClassDef) -> dict[str, dict[str, str]]:
    tables = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name):
            tables[target.id] = ast.literal_eval(statement.value)
    return tables if {"openapi_types", "attribute_map"} <= tables.keys() else {}


def _define(
    name: str, models: dict[str, tuple[dict[str, str], list[str]]], definitions: dict[str, Any]
) -> None:
    if name in definitions:
        return
    types, needed = models[name]
    definition: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
    definitions[name] = definition
    for field, kind in sorted(types.items()):
        inner = re.sub(r"^(?:list\[|dict\(str, )(.*)[\])]$", r"\1", kind)
        if inner in models:
            if LEFT_OUT.fullmatch(inner):
                continue
            _define(inner, models, definitions)
        elif LEFT_OUT.fullmatch(inner):
            continue
        definition["properties"][field] = _type(kind, inner in models)
    if needed:
        definition["required"] = sorted(needed)


def _type(kind: str, own: bool) -> dict[str, Any]:
    if kind.startswith("list["):
        return {"type": "array", "items": _type(kind[5:-1], own)}
    if kind.startswith("dict(str, "):
        return {"type": "object", "additionalProperties": _type(kind[10:-1], own)}
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if own:
        return {"$ref": f"#/$defs/{kind}"}
    if kind == "V1ObjectMeta":
        return {"$ref": f"{_KUBERNETES}apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    if kind == "ResourceQuantity":
        return {"$ref": f"{_KUBERNETES}apimachinery.pkg.api.resource.Quantity"}
    return {"$ref": f"{_KUBERNETES}api.core.v1.{kind.removeprefix('V1')}"}


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
