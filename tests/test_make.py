"""What `make` would do on a fresh clone, without doing it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or not (ROOT / "Makefile").is_file(), reason="no make, or no clone"
)


def plan(*arguments: str, venv: Path) -> str:
    command = ["make", "--dry-run", f"VENV={venv}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_demo_installs_neither_linters_nor_test_packages(tmp_path: Path) -> None:
    steps = plan("demo", venv=tmp_path / "new")
    assert "onnxruntime-ep-tunableop[openblas,models]" in steps
    assert steps.count("onnxruntime-ep-tunableop[") == 1
    assert "pytest" not in steps.replace(str(tmp_path), "")


@pytest.mark.parametrize("goal", ["test", "lint"])
def test_everything_else_installs_them_and_builds_one_wheel(goal: str, tmp_path: Path) -> None:
    steps = plan(goal, venv=tmp_path / "new")
    assert steps.count("pip wheel") == 1
    assert steps.index("[openblas,models]") < steps.index("[test,lint,serve]")


def test_flags_for_the_wheel_reach_pip(tmp_path: Path) -> None:
    flag = "--config-settings=cmake.define.TUNABLEOP_WERROR=ON"
    (build,) = (
        line
        for line in plan("lint", f"WHEEL_FLAGS={flag}", venv=tmp_path).splitlines()
        if "pip wheel" in line
    )
    assert flag in build
    assert flag in (ROOT / ".ci" / "run").read_text()


def test_a_wheel_from_a_checkout_brings_what_tests_need(tmp_path: Path) -> None:
    (build,) = (line for line in plan("test", venv=tmp_path).splitlines() if "pip wheel" in line)
    assert "cmake.define.TUNABLEOP_BUILD_TESTS=ON" in build


def test_sanitizers_need_no_more_than_a_fresh_clone_has(tmp_path: Path) -> None:
    steps = plan("sanitize", venv=tmp_path / "new")
    assert steps.index("[test,lint,serve]") < steps.index("tools/sanitize/run.py")
