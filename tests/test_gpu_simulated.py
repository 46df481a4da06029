"""The tests of tests/gpu on simulated libraries of both vendors, each in a process of its own.

On a machine with a card, `pytest tests/gpu` runs them on that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.built import FOLDER

TESTS = Path(__file__).resolve().parent

#: Simulated libraries, by folder, and the files that tests are run on with each: all on the newest.
FLAVOURS = {
    "cuda13": ("test_products.py", "test_serving.py", "test_placement.py", "test_replays.py"),
    "cuda12": ("test_placement.py",),
    "rocm10": ("test_products.py", "test_serving.py", "test_placement.py", "test_replays.py"),
    "rocm7": ("test_placement.py",),
    "rocm6": ("test_placement.py",),
}
#: What may be skipped: there is no simulated onnxruntime.
SKIPPED = "has no provider of its own for "


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_on_simulated_libraries(flavour: str) -> None:
    folder = FOLDER / "gpu_sim" / flavour
    assert folder.is_dir(), f"{folder} is not there: `make test` builds it"
    backend = "cuda" if flavour.startswith("cuda") else "hip"
    nowhere = str(TESTS / "no such folder")
    environment = os.environ | {
        "TUNABLEOP_CUDA_PATH": str(folder) if backend == "cuda" else nowhere,
        "TUNABLEOP_ROCM_PATH": str(folder) if backend == "hip" else nowhere,
        "TUNABLEOP_TEST_DEVICE": f"{backend}:0",
    }
    files = [str(TESTS / "gpu" / name) for name in FLAVOURS[flavour]]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *files],
        cwd=TESTS.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    report = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0, report
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) >= 5 * len(files), report
    reasons = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all(SKIPPED in line for line in reasons), report
