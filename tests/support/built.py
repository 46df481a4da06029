"""What was built for tests only, and stands in no wheel."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

#: Where the build put it; a build with a sanitizer has a folder of its own.
FOLDER = Path(os.environ.get("TUNABLEOP_TESTS_DIR", ROOT / "build" / "tests"))

COMMAND = "pip install --config-settings=cmake.define.TUNABLEOP_BUILD_TESTS=ON ."


def built(pattern: str) -> Path:
    """The one file of that name. FileNotFoundError: says how to build it."""
    for path in sorted(FOLDER.glob(pattern)):
        return path
    raise FileNotFoundError(f"no {pattern} in {FOLDER}: `make test` builds it, or `{COMMAND}` in {ROOT}")
