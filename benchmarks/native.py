"""The module that shows single kernels. It is built for tests, and no part of the package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "build" / "tests"


def load() -> Any:
    """The module. ImportError: says how to build it."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    try:
        return importlib.import_module("tunableop_native_tests")
    except ImportError as error:
        command = "pip install --config-settings=cmake.define.TUNABLEOP_BUILD_TESTS=ON ."
        raise ImportError(f"{error}: it is built in a checkout, by `make bench` or `{command}`") from error
