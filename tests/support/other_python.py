"""Pythons that are not this one: environments with another onnxruntime, and scripts."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "environments"


class NoIndexError(Exception):
    """pip reaches no package index; the message is what it said."""


def environment(*requirements: str) -> Path:
    """The Python of an environment that holds `requirements`, made once and kept for later runs.

    Raises NoIndexError, and AssertionError when anything else goes wrong.
    """
    key = "-".join([f"python-{platform.python_version()}", *requirements]).replace("==", "-")
    made = CACHE / key
    python = made / "bin" / "python"
    if python.exists():
        return python
    shutil.rmtree(made, ignore_errors=True)  # of a Python that is no more
    CACHE.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix="making-", dir=CACHE))
    try:
        _run(sys.executable, "-m", "venv", str(making))
        inside = str(making / "bin" / "python")
        _run(inside, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "30", *requirements)
        with contextlib.suppress(OSError):  # another run was faster: its environment is as good
            making.rename(made)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    assert python.exists(), f"{python} was not made"
    return python


def _run(*command: str) -> None:
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=500, check=False)
    if done.returncode != 0:
        said = done.stdout + done.stderr
        if "connection broken by" in said:
            raise NoIndexError(said.strip().splitlines()[-1])
        raise AssertionError(f"{' '.join(command)} failed with {done.returncode}:\n{said}")


def script(path: Path, body: str) -> Path:
    """A shell script to start in place of Python; `exec "$PYTHON" "$@"` in it goes on as this Python."""
    path.write_text(f"#!/bin/sh\nPYTHON='{sys.executable}'\n{body}\n")
    path.chmod(0o755)
    return path
