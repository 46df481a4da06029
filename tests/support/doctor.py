"""The doctor, asked in this process or as a command in another, and what it says of broken set-ups."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime_ep_tunableop as tunableop

Document = dict[str, Any]
PACKAGE = Path(tunableop.__file__).parent


#: The command without the time that its probe takes; an installation that is whole allows that.
_FAST = """
import sys
from onnxruntime_ep_tunableop import cli
from onnxruntime_ep_tunableop.doctor import clocks
clocks.PROBE_SECONDS = clocks.WARM_SECONDS = 0.0
sys.exit(cli.main(["doctor", "--json", *sys.argv[1:]]))
"""


def run(*arguments: str, path: Path | None = None, drop: tuple[str, ...] = (), **env: str) -> Document:
    """`tunableop doctor --json ARGUMENTS` in a process of its own. `path` goes first on its PYTHONPATH."""
    variables = {name: value for name, value in os.environ.items() if name not in drop} | env
    if path is not None:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
    how = ["-c", _FAST] if path is None else ["-m", "onnxruntime_ep_tunableop", "doctor", "--json"]
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *how, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=variables,
        check=False,
    )
    assert done.returncode in (0, 1), f"return code {done.returncode}\n{done.stdout}\n{done.stderr}"
    document: Document = json.loads(done.stdout)
    assert done.returncode == (document["verdict"] == "problem")
    check_whole(document)
    return document


def check_whole(document: Document) -> None:
    """What holds for every report."""
    for check in document["checks"]:
        assert set(check) == {"name", "question", "verdict", "evidence", "remedy"}
        assert check["question"].endswith("?")
        assert check["evidence"], check
        assert check["remedy"] or check["verdict"] in ("ok", "note"), check
    names = [check["name"] for check in document["checks"]]
    assert len(set(names)) == len(names)


def named(document: Document, name: str) -> Document:
    """The check of that name."""
    (found,) = [check for check in document["checks"] if check["name"] == name]
    return dict(found)


def problems(document: Document) -> list[str]:
    return [check["name"] for check in document["checks"] if check["verdict"] == "problem"]


def only_problem(document: Document, name: str) -> Document:
    """The check, which is the one problem of the whole report."""
    assert problems(document) == [name], [
        check for check in document["checks"] if check["verdict"] == "problem"
    ]
    return named(document, name)


def copy_package(folder: Path) -> Path:
    """A copy of the installed package that a test may damage."""
    ignored = shutil.ignore_patterns("__pycache__", "models", "include")
    return Path(shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=ignored))


def distribution(folder: Path, name: str, version: str) -> None:
    """What pip leaves of an installed distribution for importlib.metadata."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def fake_onnxruntime(folder: Path, version: str) -> None:
    """An onnxruntime that can be imported and has a version, and not much else."""
    package = folder / "onnxruntime"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"__version__ = {version!r}\n"
        "class InferenceSession: pass\n"
        "class SessionOptions: pass\n"
        "def get_available_providers(): return ['CPUExecutionProvider']\n"
        "def get_ep_devices(): raise AttributeError('too old for plugin providers')\n"
    )
    distribution(folder, "onnxruntime", version)
