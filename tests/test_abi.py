"""The generated C interface: its own assertions hold, and those against official headers can fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ABI = Path(__file__).resolve().parent.parent / "ep" / "abi"
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (set CXX)")

Facts = dict[str, Any]


@pytest.fixture(scope="module")
def facts() -> Facts:
    loaded: Facts = json.loads((ABI / "ort.json").read_text(encoding="utf-8"))
    return loaded


def generate(folder: Path, facts: Facts) -> tuple[Path, Path]:
    """The header and the check made from `facts`, by the command line that the build uses."""
    source = folder / "facts.json"
    source.write_text(json.dumps(facts), encoding="utf-8")
    header, check = folder / "abi" / "ort_c_api.h", folder / "check.cc"
    command = [
        sys.executable,
        str(ABI / "generate.py"),
        str(source),
        "--header",
        str(header),
        "--check",
        str(check),
    ]
    subprocess.run(command, check=True, timeout=60)
    return header, check


def compile_only(source: Path, *include: Path) -> subprocess.CompletedProcess[str]:
    assert COMPILER is not None
    folders = [f"-I{folder}" for folder in include]
    return subprocess.run(
        [COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *folders, str(source)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def official(folder: Path, header: str, version: int) -> Path:
    """A folder with a header that looks like the official one: made from ours."""
    include = folder / "official"
    include.mkdir()
    text = f"#define ORT_API_VERSION {version}\n" + header
    (include / "onnxruntime_c_api.h").write_text(text, encoding="utf-8")
    return include


def built_version(header: str) -> int:
    found = re.search(r"kOrtBuiltApiVersion = (\d+)", header)
    assert found is not None
    return int(found.group(1))


def test_the_header_compiles_with_all_its_offset_assertions(tmp_path: Path, facts: Facts) -> None:
    header, _ = generate(tmp_path, facts)
    text = header.read_text()
    functions = [entry for entries in facts["tables"].values() for entry in entries]
    assert text.count("static_assert(offsetof(") == len(functions) > 200
    assert text.count("static_assert(sizeof(") == len(facts["tables"])
    source = tmp_path / "use.cc"
    source.write_text('#include "abi/ort_c_api.h"\n#include "abi/ort_c_api.h"\nint main() { return 0; }\n')
    done = compile_only(source, tmp_path)
    assert done.returncode == 0, done.stderr


def test_generating_twice_gives_the_same_text(tmp_path: Path, facts: Facts) -> None:
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        texts.append([path.read_text() for path in generate(tmp_path / name, facts)])
    assert texts[0] == texts[1]


def test_the_check_passes_against_a_header_that_agrees(tmp_path: Path, facts: Facts) -> None:
    header, check = generate(tmp_path, facts)
    text = header.read_text()
    include = official(tmp_path, text, built_version(text))
    done = compile_only(check, include)
    assert done.returncode == 0, done.stderr


TABLES = ["OrtApi", "OrtEpApi", "OrtEp", "OrtEpFactory", "OrtKernelImpl"]


@pytest.mark.parametrize("table", TABLES)
def test_the_check_fails_when_a_slot_moved(table: str, tmp_path: Path, facts: Facts) -> None:
    """Official headers with one more function than ours, in the middle of a table."""
    header, check = generate(tmp_path, facts)
    text = re.sub(r"^static_assert\(.*\n", "", header.read_text(), flags=re.MULTILINE)
    entry = next(e for e in facts["tables"][table][2:] if e["kind"] == "fn")
    line = re.compile(rf"(struct {table} {{\n(?:.*\n)*?)(  [^\n]*\(\*{entry['name']}\))")
    moved, count = line.subn(r"\1  void* inserted;\n\2", text)
    assert count == 1
    include = official(tmp_path, moved, built_version(text))
    done = compile_only(check, include)
    assert done.returncode != 0
    assert "ort.json is wrong" in done.stderr
    assert f"offsetof({table}, {entry['name']})" in done.stderr.replace("offsetof (", "offsetof(") or (
        entry["name"] in done.stderr
    )


def test_the_check_fails_when_an_enum_value_differs(tmp_path: Path, facts: Facts) -> None:
    header, check = generate(tmp_path, facts)
    name, values = next(iter(facts["enums"].items()))
    key, number = list(values.items())[-1]
    text = header.read_text()
    changed = text.replace(f"  {key} = {number},", f"  {key} = {number + 1},")
    assert changed != text
    done = compile_only(check, official(tmp_path, changed, built_version(text)))
    assert done.returncode != 0
    assert key in done.stderr, name


def test_functions_newer_than_the_official_headers_are_not_checked(tmp_path: Path, facts: Facts) -> None:
    """Headers of an older release lack them; what they have must still agree."""
    header, check = generate(tmp_path, facts)
    text = header.read_text()
    newest = [
        (table, entry["name"])
        for table, entries in facts["tables"].items()
        for entry in entries
        if entry["since"] == f"1.{built_version(text)}"
    ]
    names = "|".join(re.escape(name) for _, name in newest) or "(?!)"
    without = re.sub(rf"^static_assert\(.*\n|^.*\(\*(?:{names})\)\(.*\n", "", text, flags=re.MULTILINE)
    done = compile_only(check, official(tmp_path, without, built_version(text) - 1))
    assert done.returncode == 0, done.stderr


def test_the_headers_own_assertions_fail_when_a_fact_is_wrong(tmp_path: Path, facts: Facts) -> None:
    wrong = json.loads(json.dumps(facts))
    wrong["sizes"]["OrtEp"]["sizeof"] += 4  # no table of pointers has such a size
    generate(tmp_path, wrong)
    source = tmp_path / "use.cc"
    source.write_text('#include "abi/ort_c_api.h"\n')
    done = compile_only(source, tmp_path)
    assert done.returncode != 0
    assert "sizeof(OrtEp)" in done.stderr


def test_every_function_says_since_when_it_is_there(facts: Facts) -> None:
    for table, entries in facts["tables"].items():
        offsets = [entry.get("offset_bytes", entry["slot"] * 8) for entry in entries]
        assert offsets == sorted(set(offsets)), table
        for entry in entries:
            assert entry["since"] is None or re.fullmatch(r"1\.\d+", str(entry["since"])), (
                table,
                entry["name"],
            )
