"""The optional OpenBLAS library."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tunableop_native_tests as native
from kernel_cases import Case, check

# Before anything asks for the libraries, which are loaded once.
_FOUND = importlib.util.find_spec("scipy_openblas32")
OPENBLAS_FOLDER = str(Path(_FOUND.origin).parent / "lib") if _FOUND and _FOUND.origin else None
if OPENBLAS_FOLDER is not None:
    native.set_openblas_search_path(OPENBLAS_FOLDER)


def in_child(code: str, **environment: str) -> str:
    """Run Python code in a process of its own: libraries are loaded once per process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SHOW_OPENBLAS = (
    "import tunableop_native_tests as native;"
    "print([x for x in native.libraries() if x['library'] == 'openblas'][0])"
)


def test_openblas_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    shown = in_child(SHOW_OPENBLAS, TUNABLEOP_OPENBLAS_LIBRARY=str(tmp_path / "absent.so"))
    assert "'available': False" in shown
    assert "absent.so" in shown
    # A library that is no OpenBLAS: this very extension module.
    shown = in_child(SHOW_OPENBLAS, TUNABLEOP_OPENBLAS_LIBRARY=str(native.__file__))
    assert "'available': False" in shown
    assert "has no symbol cblas_sgemm" in shown


OPENBLAS_CASES = [
    Case(8, 8, 8),
    Case(1, 70, 33),
    Case(33, 1, 40),
    Case(67, 130, 70, pad=3, offset=1, epilogue="bias_gelu", beta=0.5, alpha=-2.0),
    Case(5, 65, 300, trans_a=True, trans_b=True, pad=1, epilogue="bias", beta=1.0),
    Case(9, 200, 31, batch=3, epilogue="relu"),
    Case(9, 20, 31, batch=4, broadcast="b", pad=2),
    Case(12, 150, 64, packed=True, epilogue="bias_relu"),
    Case(12, 1, 64, packed=True, batch=2),
    Case(6, 33, 20, packed=True, trans_a=True, beta=1.0),
]


@pytest.mark.skipif(OPENBLAS_FOLDER is None, reason="scipy-openblas32 is not installed")
@pytest.mark.parametrize("case", OPENBLAS_CASES, ids=str)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_openblas(case: Case, threads: int) -> None:
    case = replace(case, threads=threads)
    found = native.candidates(case.problem(), scope_all=True, library="openblas")
    assert found, native.libraries()
    check(case, found)


@pytest.mark.skipif(OPENBLAS_FOLDER is None, reason="scipy-openblas32 is not installed")
def test_openblas_leaves_products_without_terms_to_others() -> None:
    case = Case(3, 4, 0)
    assert native.candidates(case.problem(), scope_all=True, library="openblas") == []
    a = np.ones(12, np.float32)
    with pytest.raises(NotImplementedError):
        native.run_kernel(case.problem(), native.Candidate("openblas", "sgemm/none"), a, a, a.copy())
    with pytest.raises(FileNotFoundError):
        native.run_kernel(Case(1, 1, 1).problem(), native.Candidate("openblas", "sgemm/no"), a, a, a.copy())
