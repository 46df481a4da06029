"""rocBLAS, on simulated libraries of several releases, each in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.built import FOLDER

FLAVOURS = ("rocm6", "rocm7", "rocm10")
CHECKS = Path(__file__).with_name("rocblas_checks.py")

COMMON = (
    "numerics",
    "names",
    "wrong_names",
    "indices_that_do_not_fit",
    "refusals",
    "empty",
    "explore",
    "no_atomics",
    "workspace",
    "concurrency",
    "hits",
    "captured",
    "errors",
    "two_cards",
    "released",
)


def run_check(folder: Path, check: str, faults: str = "", **environment: str) -> str:
    """Run a function of rocblas_checks.py; what it printed."""
    assert folder.is_dir(), f"{folder} is not built"
    unset = ("ROCBLAS_USE_HIPBLASLT", "ROCBLAS_TENSILE_LIBPATH", "ROCBLAS_CHECK_NUMERICS")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(CHECKS), check],
        env={
            **{name: value for name, value in os.environ.items() if name not in unset},
            "TUNABLEOP_ROCM_PATH": str(folder),
            # Of the other vendor this process is to see nothing.
            "TUNABLEOP_CUDA_PATH": str(CHECKS.parent),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SIM_GPU_FAULTS": faults,
            "SIM_GPU_VERBOSE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def flavour_folder(flavour: str) -> Path:
    return FOLDER / "gpu_sim" / flavour


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("check", COMMON)
def test_common(flavour: str, check: str) -> None:
    run_check(flavour_folder(flavour), check)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_indices_that_an_upgrade_moved(flavour: str) -> None:
    run_check(flavour_folder(flavour), "moved_indices", faults="moved_indices")


@pytest.mark.parametrize(
    ("flavour", "version"), [("rocm6", "4.3.0.sim6"), ("rocm7", "5.0.0.sim7"), ("rocm10", "5.4.0.sim10")]
)
def test_what_a_saved_index_is_valid_for(flavour: str, version: str) -> None:
    folder = flavour_folder(flavour)
    assert run_check(folder, "identity") == f"{version}+gfx942"
    assert run_check(folder, "identity", ROCBLAS_USE_HIPBLASLT="1") == f"{version}+gfx942+hipblaslt=1"


def test_operands_that_rocblas_would_read() -> None:
    run_check(flavour_folder("rocm7"), "unchecked_indices", ROCBLAS_CHECK_NUMERICS="2")


def test_without_the_beta_functions() -> None:
    run_check(flavour_folder("rocm7-noext"), "no_solutions")


def test_a_library_that_lacks_what_every_one_has() -> None:
    available, reason = run_check(flavour_folder("rocm7-broken"), "state").split("|")
    assert available == "False"
    assert "no symbol rocblas_gemm_ex" in reason


# ---- a library without kernels for the card: its first GEMM would end the process -----------------


def installation(tmp_path: Path, *kernels: str) -> Path:
    """Copies of the simulated libraries, with a folder of kernels as rocBLAS has it."""
    folder = tmp_path / "rocm" / "lib"
    shutil.copytree(flavour_folder("rocm7"), folder)
    for kernel in kernels:
        path = folder / "rocblas" / "library" / kernel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


@pytest.mark.parametrize(
    "kernels",
    [
        [],  # elsewhere: not known
        ["TensileLibrary_lazy_gfx942.dat"],
        ["TensileLibrary_lazy_gfx1100.dat", "TensileLibrary_gfx942.yaml"],
        ["gfx942/TensileLibrary_lazy_gfx942.dat"],
        ["TensileLibrary.dat"],
    ],
)
def test_kernels_for_the_card(tmp_path: Path, kernels: list[str]) -> None:
    assert run_check(installation(tmp_path, *kernels), "state") == "True|"


@pytest.mark.parametrize(
    "kernels",
    [
        ["TensileLibrary_lazy_gfx1100.dat"],
        ["TensileLibrary_lazy_gfx94.dat", "TensileLibrary_lazy_gfx9420.dat", "Kernels.so-000-gfx942.hsaco"],
        ["gfx942/TensileLibrary_lazy_gfx1100.dat", "TensileLibrary_lazy_gfx942.dat"],
    ],
)
def test_no_kernels_for_the_card(tmp_path: Path, kernels: list[str]) -> None:
    available, reason = run_check(installation(tmp_path, *kernels), "state").split("|")
    assert available == "False"
    assert "rocBLAS has no kernels for gfx942 in" in reason


def test_kernels_where_a_variable_says(tmp_path: Path) -> None:
    folder = installation(tmp_path, "TensileLibrary_lazy_gfx942.dat")
    other = tmp_path / "other"
    other.mkdir()
    assert run_check(folder, "state", ROCBLAS_TENSILE_LIBPATH=str(other)).startswith("False|")
    (other / "TensileLibrary_lazy_gfx942.dat").touch()
    assert run_check(folder, "state", ROCBLAS_TENSILE_LIBPATH=str(other)) == "True|"
