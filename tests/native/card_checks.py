"""What the checks of the GEMM libraries of cards share: the simulation's controls, and graphs.

For a process of its own, with the libraries of one flavour.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tunableop_native_tests as native

MIB = 1 << 20
WORKSPACE = 32 * MIB


@functools.cache
def simulation() -> ctypes.CDLL:
    """The simulated runtime, with the controls of the simulation."""
    for variable, pattern in (
        ("TUNABLEOP_ROCM_PATH", "libamdhip64.so.*"),
        ("TUNABLEOP_CUDA_PATH", "libcudart.so.*"),
    ):
        for path in sorted(Path(os.environ[variable]).glob(pattern)):
            library = ctypes.CDLL(str(path))
            library.sim_gpu_count.restype = ctypes.c_int64
            return library
    raise FileNotFoundError("no simulated runtime")


def is_hip() -> bool:
    return hasattr(simulation(), "hipMalloc")


def call(name: str, *arguments: Any) -> None:
    """call("Malloc", ...) is cudaMalloc or hipMalloc, which must succeed."""
    status = simulation()[("hip" if is_hip() else "cuda") + name](*arguments)
    assert status == 0, f"{name}: {status}"


def count(what: str) -> int:
    return int(simulation().sim_gpu_count(what.encode()))


def set_faults(faults: str) -> None:
    simulation().sim_gpu_set_faults(faults.encode())


@contextmanager
def capture(lane: native.Lane, launch: Callable[[], None]) -> Iterator[None]:
    """What is queued on the lane's stream within goes into a graph, which is then run; `launch` looks."""
    stream = ctypes.c_void_p(lane.stream)
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    call("StreamBeginCapture", stream, 0)
    try:
        yield
    finally:
        call("StreamEndCapture", stream, ctypes.byref(graph))
    if is_hip():
        call("GraphInstantiate", ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0))
    else:
        call("GraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    call("GraphLaunch", executable, stream)
    call("StreamSynchronize", stream)
    launch()
    call("GraphExecDestroy", executable)
    call("GraphDestroy", graph)
