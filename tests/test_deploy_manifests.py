"""The manifests of deploy/: valid for Kubernetes and KServe, and in accord with the server and the image.

Kubernetes' schemas are those of the package kubernetes-validate, in their strict form, where an unknown
field is an error; KServe's are made by tools/kserve_schema.py. No cluster is asked.
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib.resources
import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from onnxruntime_ep_tunableop.cli.serve import COMMAND, TOKEN_VARIABLE
from onnxruntime_ep_tunableop.serve.settings import shapes_of
from referencing import Registry, Resource
from support.containerfile import read
from support.graphs import matmul_model
from support.served import started
from support.waiting import until

yaml = pytest.importorskip("yaml", reason="the extra 'test' is not installed")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="the extra 'test' is not installed")

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
NEWEST, OLDEST = "1.37", "1.29"
KSERVE = [
    "serving-runtime.yaml",
    "inference-service.yaml",
    "inference-service-nvidia.yaml",
    "inference-service-amd.yaml",
]
VARIANTS = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}

pytestmark = pytest.mark.skipif(not DEPLOY.is_dir(), reason="no clone")

Object = dict[str, Any]


def objects(path: Path) -> list[Object]:
    return [found for found in yaml.safe_load_all(path.read_text(encoding="utf-8")) if found]


def of_kind(kind: str, found: list[Object]) -> Object:
    (chosen,) = (entry for entry in found if entry["kind"] == kind)
    return chosen


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    COMMAND.add_arguments(parser)
    return parser.parse_args(arguments)


def patched(into: Any, patch: Any) -> Any:
    """As `kubectl kustomize` merges: objects by key, and lists of named objects by name."""
    if isinstance(into, dict) and isinstance(patch, dict):
        return into | {key: patched(into.get(key), value) for key, value in patch.items()}
    if isinstance(into, list) and isinstance(patch, list) and all("name" in entry for entry in patch):
        changes = {entry["name"]: entry for entry in patch}
        assert changes.keys() <= {entry["name"] for entry in into}, "a patch of something that is there"
        return [patched(entry, changes.get(entry["name"], {})) for entry in into]
    return patch


def base() -> list[Object]:
    return objects(DEPLOY / "kubernetes" / "base" / "serve.yaml")


def variant(name: str) -> list[Object]:
    (card,) = objects(DEPLOY / "kubernetes" / name / "card.yaml")
    return [patched(entry, card) if entry["kind"] == "Deployment" else entry for entry in base()]


@functools.cache
def kserve_validator() -> Any:
    schema = json.loads((ROOT / "tests" / "data" / "kserve_schema.json").read_text())
    folder = f"v{max_patch(NEWEST)}-local-strict"
    path = importlib.resources.files(kubernetes_validate) / "kubernetes-json-schema" / folder
    definitions = json.loads((path / "_definitions.json").read_text())
    registry: Any = Registry().with_resources(
        [
            ("/kserve.json", Resource.from_contents(schema)),
            ("/api/_definitions.json", Resource.from_contents(definitions)),
        ]
    )

    def validate(found: Object) -> None:
        reference = f"/kserve.json{schema['kinds'][found['kind']]['$ref']}"
        Draft202012Validator({"$ref": reference}, registry=registry).validate(found)

    return validate


def max_patch(version: str) -> str:
    (found,) = (
        entry for entry in set(kubernetes_validate.utils.all_versions()) if entry.startswith(f"{version}.")
    )
    return str(found)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("which", ["base", *VARIANTS])
def test_kubernetes_knows_every_field(which: str, version: str) -> None:
    found = base() if which == "base" else variant(which)
    assert len(found) == 6
    for entry in found:
        assert kubernetes_validate.validate(entry, version, strict=True) == version


def test_a_misspelt_field_of_kubernetes_is_found() -> None:
    wrong = copy.deepcopy(of_kind("Deployment", base()))
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(wrong, NEWEST, strict=True)


@pytest.mark.parametrize("file", KSERVE)
def test_kserve_knows_every_field(file: str) -> None:
    found = objects(DEPLOY / "kserve" / file)
    assert found
    for entry in found:
        kserve_validator()(entry)


def test_so_would_it_in_all_namespaces() -> None:
    (runtime,) = objects(DEPLOY / "kserve" / "serving-runtime.yaml")
    kserve_validator()(runtime | {"kind": "ClusterServingRuntime"})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "protocolVersion"), ["v2"]),
        (("spec", "supportedModelFormats", 0, "autoselect"), True),
        (("spec", "supportedModelFormats", 0, "version"), 1),
        (("spec", "containers", 0, "readinessprobe"), {}),
        (("spec", "containers", 0, "ports", 0, "containerPort"), "8080"),
        (("spec", "containers"), {}),
    ],
)
def test_a_mistake_in_a_runtime_is_found(path: tuple[Any, ...], value: object) -> None:
    (runtime,) = objects(DEPLOY / "kserve" / "serving-runtime.yaml")
    place = runtime
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValidationError):
        kserve_validator()(runtime)


def every_container() -> Iterator[tuple[str, Object, Object]]:
    """Name, pod, container of whatever runs the server."""
    for name in ("base", *VARIANTS):
        pod = of_kind("Deployment", base() if name == "base" else variant(name))["spec"]["template"]["spec"]
        yield name, pod, pod["containers"][0]
    (runtime,) = objects(DEPLOY / "kserve" / "serving-runtime.yaml")
    yield "kserve", runtime["spec"], runtime["spec"]["containers"][0]


CONTAINERS = {name: (pod, container) for name, pod, container in every_container()} if DEPLOY.is_dir() else {}


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_server_takes_its_arguments_and_listens_where_it_is_asked(name: str) -> None:
    _, container = CONTAINERS[name]
    entry = read(DEPLOY / "Containerfile")[1][-1].only("ENTRYPOINT").array
    given = parsed([*entry[2:], *container["args"]])  # args replace CMD, and come after ENTRYPOINT
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports in ({"http": given.http_port, "grpc": given.grpc_port}, {"http1": given.http_port})
    for probe, path in (("livenessProbe", "live"), ("readinessProbe", "ready"), ("startupProbe", "live")):
        if probe in container:
            asked = container[probe]["httpGet"]
            assert asked["path"] == f"/v2/health/{path}"
            assert ports.get(asked["port"], asked["port"]) == given.http_port
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert str(given.state) in mounts
    assert "/tmp" in mounts, "the root file system is read-only"
    if given.repository is not None:
        assert mounts[str(given.repository)]["readOnly"]
    if given.warm is not None:
        assert str(given.warm.parent) in mounts
    volumes = {volume["name"] for volume in CONTAINERS[name][0]["volumes"]}
    assert {mount["name"] for mount in mounts.values()} <= volumes


@pytest.mark.parametrize("name", CONTAINERS)
def test_nobody_is_killed_who_still_answers(name: str) -> None:
    pod, container = CONTAINERS[name]
    grace = parsed(container["args"]).grace_seconds
    wait = 0.0
    if "lifecycle" in container:
        command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
        assert command == "sleep"
        wait = float(seconds)
    if name == "kserve":  # a runtime cannot say it: its services do
        services = [entry for file in KSERVE[1:] for entry in objects(DEPLOY / "kserve" / file)]
        periods = [entry["spec"]["predictor"]["terminationGracePeriodSeconds"] for entry in services]
    else:
        periods = [pod["terminationGracePeriodSeconds"]]
    assert all(period >= wait + grace + 5 for period in periods)


@pytest.mark.parametrize("name", CONTAINERS)
def test_nobody_has_rights_without_need(name: str) -> None:
    pod, container = CONTAINERS[name]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    user = read(DEPLOY / "Containerfile")[1][-1].only("USER").text.split(":")[0]
    who = container["securityContext"] if name == "kserve" else pod["securityContext"]
    assert who["runAsNonRoot"] is True
    assert who["runAsUser"] == int(user)


@pytest.mark.parametrize("name", CONTAINERS)
def test_threads_can_be_counted_from_the_limit(name: str) -> None:
    resources = CONTAINERS[name][1]["resources"]
    assert resources["limits"]["cpu"] == resources["requests"]["cpu"]
    assert int(resources["limits"]["cpu"]) >= 1
    assert resources["limits"]["memory"] == resources["requests"]["memory"]


@pytest.mark.parametrize(("name", "resource"), VARIANTS.items())
def test_a_variant_has_its_card(name: str, resource: str) -> None:
    assert CONTAINERS[name][1]["resources"]["limits"][resource] == "1"
    assert CONTAINERS[name][1]["image"].endswith(f"-{name}")
    (service,) = objects(DEPLOY / "kserve" / f"inference-service-{name}.yaml")
    model = service["spec"]["predictor"]["model"]
    assert model["resources"]["limits"][resource] == "1"
    assert model["image"] == CONTAINERS[name][1]["image"]


def test_the_parts_of_the_deployment_find_each_other() -> None:
    found = base()
    deployment = of_kind("Deployment", found)["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    service = of_kind("Service", found)["spec"]
    assert deployment["selector"]["matchLabels"] == labels == service["selector"]
    assert of_kind("PodDisruptionBudget", found)["spec"]["selector"]["matchLabels"] == labels
    container = deployment["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports
    claims = {entry["metadata"]["name"]: entry for entry in found if entry["kind"] == "PersistentVolumeClaim"}
    volumes = {volume["name"]: volume for volume in deployment["template"]["spec"]["volumes"]}
    for volume in volumes.values():
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in claims
    assert deployment["replicas"] > 1
    assert claims[volumes["state"]["persistentVolumeClaim"]["claimName"]]["spec"]["accessModes"] == [
        "ReadWriteMany"
    ]
    config = of_kind("ConfigMap", found)
    assert volumes["shapes"]["configMap"]["name"] == config["metadata"]["name"]
    warm = parsed(container["args"]).warm
    assert list(shapes_of(json.loads(config["data"][warm.name]), "anything")) == []
    (variable,) = container["env"]
    assert variable["name"] == TOKEN_VARIABLE


def test_kserve_and_the_runtime_mean_the_same() -> None:
    (runtime,) = objects(DEPLOY / "kserve" / "serving-runtime.yaml")
    container = runtime["spec"]["containers"][0]
    assert container["name"] == "kserve-container", "the one into which KServe mounts the model"
    formats = {entry["name"] for entry in runtime["spec"]["supportedModelFormats"]}
    given = parsed(container["args"])
    for file in KSERVE[1:]:
        for service in objects(DEPLOY / "kserve" / file):
            model = service["spec"]["predictor"]["model"]
            assert model["runtime"] == runtime["metadata"]["name"]
            assert model["modelFormat"]["name"] in formats
            assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
            if model["protocolVersion"] == "grpc-v2":
                (port,) = model["ports"]
                assert (port["name"], port["containerPort"]) == ("h2c", given.grpc_port)


def test_the_runtimes_arguments_serve_what_the_storage_initializer_leaves(tmp_path: Path) -> None:
    """A folder with model.onnx in it, under the name of the service."""
    (tmp_path / "models").mkdir()
    model = matmul_model(["m", 8], [8, 5]).SerializeToString()
    (tmp_path / "models" / "model.onnx").write_bytes(model)
    arguments = [
        argument.replace("{{.Name}}", "encoder").replace("/mnt/models", str(tmp_path / "models"))
        for argument in CONTAINERS["kserve"][1]["args"]
        if "-port=" not in argument
    ]
    command = [sys.executable, "-m", "onnxruntime_ep_tunableop", "serve", *arguments]
    options = [
        "--http-port",
        "0",
        "--grpc-port",
        "0",
        "--access-log",
        "off",
        "--state",
        str(tmp_path / "state"),
    ]
    with started([*command, *options]) as server:

        def ready() -> bool:
            try:
                with urllib.request.urlopen(f"http://{server.http}/v2/models/encoder/ready", timeout=60):
                    return True
            except urllib.error.HTTPError:
                return False

        until(ready, "the model is ready")
        with urllib.request.urlopen(f"http://{server.http}/v2/models/encoder", timeout=60) as answer:
            assert json.load(answer)["versions"] == ["1"]
        assert server.end()[0] == 0


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
@pytest.mark.parametrize("which", ["base", *VARIANTS])
def test_kubectl_puts_the_parts_together_in_the_same_way(which: str) -> None:
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes" / which)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    found = [entry for entry in yaml.safe_load_all(text) if entry]
    key = lambda entry: (entry["kind"], entry["metadata"]["name"])  # noqa: E731
    assert sorted(found, key=key) == sorted(base() if which == "base" else variant(which), key=key)
