"""cublasLt and hipBLASLt, on simulated libraries of several releases, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.built import FOLDER, built

CUDA = ("cuda12", "cuda13")
ROCM = ("rocm6", "rocm7", "rocm10")
CHECKS = Path(__file__).with_name("lt_checks.py")

COMMON = (
    "numerics",
    "names",
    "wrong_names",
    "refusals",
    "transposed",
    "explore",
    "workspace",
    "concurrency",
    "shared_stream",
    "hits",
    "captured",
    "misuse",
    "precisions",
)


def run_check(flavour: str, check: str, faults: str = "") -> str:
    """Run a function of lt_checks.py; what it printed."""
    folder = FOLDER / "gpu_sim" / flavour
    assert folder.is_dir(), f"{folder} is not built"
    is_cuda = flavour.startswith("cuda")
    done = subprocess.run(
        [sys.executable, str(CHECKS), "cublaslt" if is_cuda else "hipblaslt", check],
        env={
            **os.environ,
            "TUNABLEOP_CUDA_PATH" if is_cuda else "TUNABLEOP_ROCM_PATH": str(folder),
            # Of the other vendor this process is to see nothing.
            "TUNABLEOP_ROCM_PATH" if is_cuda else "TUNABLEOP_CUDA_PATH": str(CHECKS.parent),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SIM_GPU_FAULTS": faults,
            "SIM_GPU_VERBOSE": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("flavour", [*CUDA, *ROCM])
@pytest.mark.parametrize("check", COMMON)
def test_common(flavour: str, check: str) -> None:
    run_check(flavour, check)


@pytest.mark.parametrize("flavour", CUDA)
def test_no_sums_in_sixteen_bits(flavour: str) -> None:
    run_check(flavour, "reductions")


@pytest.mark.parametrize("flavour", ROCM)
@pytest.mark.parametrize("check", ["moved_index", "attribute_clash"])
def test_hipblaslt(flavour: str, check: str) -> None:
    run_check(flavour, check)


@pytest.mark.parametrize("flavour", ROCM)
def test_indices_that_an_upgrade_moved(flavour: str) -> None:
    run_check(flavour, "names", faults="moved_indices")
    run_check(flavour, "moved_index", faults="moved_indices")


def test_hipblaslt_without_its_cpp_functions() -> None:
    run_check("rocm7-noext", "plain_c")
    run_check("rocm7-noext", "numerics")


def test_cublaslt_without_a_search() -> None:
    run_check("cuda13-nosearch", "no_search")


@pytest.mark.parametrize("flavour", ["cuda13-broken", "rocm7-broken"])
def test_missing_function(flavour: str) -> None:
    assert "LtMatmul" in run_check(flavour, "unavailable")


@pytest.mark.parametrize("flavour", [*CUDA, *ROCM])
def test_too_old(flavour: str) -> None:
    assert "is older than" in run_check(flavour, "unavailable", faults="old_library")


@pytest.mark.parametrize("flavour", ROCM)
def test_card_without_kernels(flavour: str) -> None:
    assert "gfx942" in run_check(flavour, "unavailable", faults="lt_unsupported")


@pytest.mark.parametrize("flavour", CUDA)
def test_card_that_cublaslt_has_nothing_for(flavour: str) -> None:
    run_check(flavour, "nothing_for_the_card", faults="lt_unsupported")


def test_probe(tmp_path: Path) -> None:
    """What measures cublasLt on a real card runs, and finds nothing wrong with the simulated one."""
    shapes = tmp_path / "shapes.csv"
    shapes.write_text(
        "# C = A x B\nname,batch,m,n,k,b_const,where\nsmall,1,64,96,256,1,here\nodd,2,7,13,101,0,\n"
    )
    done = subprocess.run(
        [str(built("lt_probe")), str(shapes), "heuristic", "numerics", "explore"],
        env={**os.environ, "TUNABLEOP_CUDA_PATH": str(FOLDER / "gpu_sim" / "cuda13")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WRONG" not in done.stdout
    for part in ("heuristic: ", "numerics fp64", "explore fp16 odd"):
        assert part in done.stdout, done.stdout
