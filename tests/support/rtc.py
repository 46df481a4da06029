"""For tests of kernels compiled at run time, in the process of a test on a card.

The family "sim" is the simulation's own (tests/gpu_sim/core/kernels.cc): its kernel "scale" multiplies.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.built import FOLDER
from support.cards import Array, backend, control

if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
import tunableop_native_tests as native

SOURCE = "// tunableop module sim\n"
SOURCES = [("sim", SOURCE), ("strange", "int main() {}\n"), ("other", "// tunableop module other\n")]


def card(number: int = 0) -> Any:
    return native.vendor_cards()[number]["device"]


def library(folder: str | Path = "", device: Any = None, why_no_folder: str = "") -> Any:
    return native.KernelLibrary(device or card(), str(folder), SOURCES, why_no_folder)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def upload(device: Any, array: Array) -> int:
    memory = int(device.allocate(array.nbytes))
    device.upload(memory, array, 0)
    return memory


def download(device: Any, memory: int, like: Array) -> Array:
    array = np.empty_like(like)
    device.download(array, memory, 0)
    device.synchronize(0)
    return array


def scaled(function: Any, device: Any, dtype: Any = np.float32) -> None:
    """The kernel does what it is for."""
    x = np.arange(1000).astype(dtype)
    at, to = upload(device, x), device.allocate(x.nbytes)
    stream = device.create_stream()
    device.synchronize(0)
    function.scale(at, to, x.size, 3.0, stream)
    device.synchronize(stream)
    np.testing.assert_array_equal(download(device, to, x), 3 * x)


def refusal(action: Any, *arguments: Any) -> str:
    """In which words an error is told."""
    try:
        action(*arguments)
    except (OSError, RuntimeError, ValueError) as error:  # NotImplementedError is a RuntimeError
        return str(error)
    pytest.fail("it was not refused")


def vendor(name: str, *arguments: Any) -> int:
    """A function of the runtime."""
    return int(control()[("cuda" if backend() == "cuda" else "hip") + name](*arguments))
