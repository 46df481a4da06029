"""Is the provider's library found and loadable, and of one version with the rest of the package?

Needs neither onnxruntime nor the native module: this is what is asked when those are broken.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from .check import Finding, asks

DISTRIBUTION = "onnxruntime-ep-tunableop"
LIBRARY_FILE = "libonnxruntime_providers_tunableop.so"
PACKAGE = Path(__file__).resolve().parent.parent

REINSTALL = f"pip install --force-reinstall --no-deps {DISTRIBUTION}"
#: For a system whose C library is too old for the wheel.
BUILD_HERE = f"pip install --force-reinstall --no-deps --no-binary {DISTRIBUTION} {DISTRIBUTION}"
LOAD_SECONDS = 60

#: Loads a file as the provider's library is loaded. A damaged one may kill the process that does.
_LOAD = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW | os.RTLD_LOCAL)"

_GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?\0")


@asks("library.file", "is the provider's library found and loadable?")
def found(folder: Path = PACKAGE) -> Finding:
    """The file: there, whole, loadable."""
    path = folder / LIBRARY_FILE
    if not path.is_file():
        there = "is a link to nowhere" if path.is_symlink() else "is missing"
        return Finding("problem", [f"{path} {there}"], REINSTALL)
    evidence = [f"{path}, {path.stat().st_size:,} bytes"]
    if line := glibc_line(path):
        evidence.append(line)
    why = why_not_loaded(path)
    if why is None:
        return Finding("ok", evidence)
    return Finding("problem", [why, *evidence], _remedy(why))


def why_not_loaded(path: Path) -> str | None:
    """Loads it in a process of its own; what went wrong, or None."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LOAD, str(path)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"loading it did not end within {LOAD_SECONDS} s"
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"loading it killed the process that tried (signal {-done.returncode}): the file is damaged"
    lines = done.stderr.strip().splitlines()
    return lines[-1].removeprefix("OSError: ") if lines else f"exit code {done.returncode}"


def _remedy(why: str) -> str:
    if "GLIBC_" in why or "GLIBCXX_" in why or "CXXABI_" in why:
        return BUILD_HERE
    missing = re.match(r"(\S+): cannot open shared object file: No such file", why)
    if missing and "/" not in missing[1]:
        package = {"libstdc++.so.6": "libstdc++6", "libgcc_s.so.1": "libgcc-s1"}.get(missing[1])
        return f"apt-get install {package}" if package else f"install the library {missing[1]}"
    if "cannot allocate memory" in why.lower():
        return "free memory, or raise the limit: ulimit -v unlimited"
    return REINSTALL


def glibc_line(path: Path) -> str:
    """The C library that a file needs and the one that is here; '' where it cannot be told."""
    versions = {(int(major), int(minor)) for major, minor in _GLIBC.findall(path.read_bytes())}
    name, here = platform.libc_ver()
    if not versions:
        return ""
    needed = ".".join(map(str, max(versions)))
    return f"needs glibc {needed}; here is {name or 'another C library'} {here}".rstrip()


def broken_module(folder: Path = PACKAGE) -> str | None:
    """Why the native module cannot be loaded, or None. Importing a damaged one may end the process."""
    modules = [file for suffix in EXTENSION_SUFFIXES if (file := folder / f"_core{suffix}").is_file()]
    if not modules:
        there = ", ".join(file.name for file in folder.glob("_core.*.so")) or "none"
        return f"there is none for this Python in {folder} ({there})"
    return why_not_loaded(modules[0])


@asks("library.version", "are the parts of the package of one version?")
def versions(folder: Path = PACKAGE) -> Finding:
    """What of the package says which version it is, and whether they agree."""
    told: dict[str, str] = {}
    if why := broken_module(folder):
        return Finding("problem", [f"the native module does not work: {why}"], REINSTALL)
    try:
        from .. import _core

        told["native module"] = _core.__version__
        # Not asked of a library that cannot be loaded: loading it may end this process.
        answer = json.loads(_core.control(str(folder / LIBRARY_FILE), "version", "{}"))
        told["library"] = answer["version"]
    except Exception as error:
        return Finding("problem", [f"the native module does not work: {error}"], REINSTALL)
    installed = [
        distribution.version
        for distribution in importlib.metadata.distributions()
        if (distribution.metadata["Name"] or "").replace("_", "-").lower() == DISTRIBUTION
    ]
    # The first on the path is the one that is imported.
    evidence = [f"{what} {version}" for what, version in told.items()]
    evidence += [f"installed: {DISTRIBUTION} {version}" for version in installed[:1]]
    if len(set(told.values()) | set(installed[:1])) > 1:
        evidence.insert(0, "they are not")
        return Finding("problem", evidence, REINSTALL)
    return Finding("ok", evidence)
