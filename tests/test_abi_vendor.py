"""The generated interfaces of the GPU vendors' libraries: they compile, and wrong facts do not."""

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
VENDORS = ["cuda", "hip"]

Facts = dict[str, Any]

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (set CXX)")


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def facts_of(vendor: str) -> Facts:
    loaded: Facts = json.loads((ABI / f"{vendor}.json").read_text(encoding="utf-8"))
    return loaded


def generate(folder: Path, vendor: str, facts: Facts) -> subprocess.CompletedProcess[str]:
    """Makes abi/<vendor>_api.h in `folder`, by the command line that the build uses."""
    source = folder / f"{vendor}.json"
    source.write_text(json.dumps(facts), encoding="utf-8")
    header = folder / "abi" / f"{vendor}_api.h"
    command = [sys.executable, str(ABI / "generate_vendor.py"), str(source), "--header", str(header)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def compiled(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    assert COMPILER is not None
    source = folder / "use.cc"
    source.write_text(text)
    command = [COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{folder}"]
    return subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=120, check=False)


@needs_compiler
def test_both_headers_compile_together_and_have_every_function_and_value(tmp_path: Path) -> None:
    uses = ['#include "abi/cuda_api.h"', '#include "abi/hip_api.h"', '#include "abi/hip_api.h"']
    for vendor in VENDORS:
        facts = facts_of(vendor)
        done = generate(tmp_path, vendor, facts)
        assert done.returncode == 0, done.stderr
        space = f"tunableop::{facts['namespace']}"
        signatures = [line for lines in facts["functions"].values() for line in lines]
        names = [line.split("(")[0].split()[-1].lstrip("*") for line in signatures]
        assert len(names) == len(set(names)) > 50
        uses += [f"[[maybe_unused]] {space}::{name}_fn f_{name} = nullptr;" for name in names]
        for values in facts["values"].values():
            for name, value in values.items():
                number = value["value"] if isinstance(value, dict) else value
                uses.append(f"static_assert({space}::{name} == {number});")
    done = compiled(tmp_path, "\n".join(uses) + "\n")
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_signatures_are_what_the_vendors_declare(tmp_path: Path) -> None:
    """A sample, written out by hand."""
    for vendor in VENDORS:
        assert generate(tmp_path, vendor, facts_of(vendor)).returncode == 0
    same = [
        ("cuda_abi::cudaMalloc_fn", "int (*)(void**, size_t)"),
        ("cuda_abi::cudaMemcpyAsync_fn", "int (*)(void*, const void*, size_t, int, void*)"),
        ("cuda_abi::cudaStreamIsCapturing_fn", "int (*)(void*, int*)"),
        ("cuda_abi::cublasLtGetVersion_fn", "size_t (*)()"),
        ("hip_abi::hipGetErrorName_fn", "const char* (*)(int)"),
        ("hip_abi::hipblasLtMatmulDescCreate_fn", "int (*)(void**, int, int)"),
        (
            "hip_abi::rocblas_gemm_ex_fn",
            "int (*)(void*, int, int, int, int, int, const void*, const void*, int, int,"
            " const void*, int, int, const void*, const void*, int, int,"
            " void*, int, int, int, int, int32_t, uint32_t)",
        ),
        ("hip_abi::getIndexFromAlgo_fn", "int (*)(hip_abi::hipblasLtMatmulAlgo_t&)"),
    ]
    lines = ['#include "abi/cuda_api.h"', '#include "abi/hip_api.h"', "#include <type_traits>"]
    lines.append("namespace tunableop {")
    lines += [f"static_assert(std::is_same_v<{one}, {two}>);" for one, two in same]
    done = compiled(tmp_path, "\n".join([*lines, "}", ""]))
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_a_wrong_size_or_offset_does_not_compile(tmp_path: Path, vendor: str) -> None:
    facts = facts_of(vendor)
    for name, struct in facts["structs"].items():
        for wrong in [{"size": struct["size"] + 8}, {"offsets": {"algo": 8}}]:
            if "offsets" in wrong and "algo" not in struct.get("offsets", {}):
                continue
            changed = json.loads(json.dumps(facts))
            changed["structs"][name].update(wrong)
            assert generate(tmp_path, vendor, changed).returncode == 0
            done = compiled(tmp_path, f'#include "abi/{vendor}_api.h"\n')
            assert done.returncode != 0, (name, wrong)
            assert name in done.stderr


def test_a_type_that_the_facts_do_not_name_is_an_error(tmp_path: Path, vendor: str) -> None:
    for signature in ["int f(vendorThing_t thing)", "vendorThing_t f(int a)", "int f(int (*callback)(int))"]:
        facts = facts_of(vendor)
        next(iter(facts["functions"].values())).append(signature)
        done = generate(tmp_path, vendor, facts)
        assert done.returncode != 0, signature
        assert "ValueError" in done.stderr


def test_generating_twice_gives_the_same_text(tmp_path: Path, vendor: str) -> None:
    texts = []
    for _ in range(2):
        assert generate(tmp_path, vendor, facts_of(vendor)).returncode == 0
        texts.append((tmp_path / "abi" / f"{vendor}_api.h").read_text())
    assert texts[0] == texts[1]


def test_mangled_names_say_what_the_types_say() -> None:
    """The names of hipBLASLt's C++ functions, against a demangler's reading."""
    demangler = shutil.which("c++filt")
    if demangler is None:
        pytest.skip("no c++filt")
    for function in facts_of("hip")["cpp_functions"]:
        done = subprocess.run(
            [demangler, function["symbol"]], capture_output=True, text=True, timeout=60, check=True
        )
        name, arguments = re.fullmatch(r"hipblaslt_ext::(\w+)[^(]*\((.*)\)\n", done.stdout).groups()  # type: ignore[union-attr]
        assert name == function["name"]
        depth, count = 0, 1
        for character in arguments:  # commas of templates are not those of the list
            depth += (character == "<") - (character == ">")
            count += character == "," and depth == 0
        assert count == len(function["arguments"]), done.stdout
