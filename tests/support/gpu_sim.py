"""The simulated vendor libraries of tests/gpu_sim, through ctypes: the runtime and what controls it.

Only for a process of its own: what loads a simulated runtime has cards from then on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_char_p, c_double, c_float, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np

from support.built import FOLDER

#: Flavour: the runtime, the Lt library, the other BLAS; as the vendors name them.
LIBRARIES = {
    "cuda12": ("libcudart.so.12", "libcublasLt.so.12", ""),
    "cuda13": ("libcudart.so.13", "libcublasLt.so.13", ""),
    "rocm6": ("libamdhip64.so.6", "libhipblaslt.so.0", "librocblas.so.4"),
    "rocm7": ("libamdhip64.so.7", "libhipblaslt.so.1", "librocblas.so.5"),
    "rocm10": ("libamdhip64.so.7", "libhipblaslt.so.1", "librocblas.so.5"),
}
FLAVOURS = tuple(LIBRARIES)

TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3
NON_BLOCKING = 1

NOT_READY = 600
ILLEGAL_ADDRESS = 700
LAUNCH_FAILURE = 719


def environment(flavour: str, **variables: str) -> dict[str, str]:
    """What makes the execution provider find one flavour (or several, with '+') and nothing else.

    A name that is none (a variant such as "rocm7-noext") is a folder too.
    """
    found = {
        "TUNABLEOP_CUDA_PATH": "",
        "TUNABLEOP_ROCM_PATH": "",
        "TUNABLEOP_KERNEL_CACHE": "off",
        **variables,
    }
    for each in flavour.split("+"):
        folder = FOLDER / "gpu_sim" / each
        if not folder.is_dir():
            raise FileNotFoundError(f"no {folder}: `make test` builds it")
        found["TUNABLEOP_CUDA_PATH" if each.startswith("cuda") else "TUNABLEOP_ROCM_PATH"] = str(folder)
    for variable in ("TUNABLEOP_CUDA_PATH", "TUNABLEOP_ROCM_PATH"):
        # Empty would mean: look everywhere. Nothing is found in a folder without libraries.
        found[variable] = found[variable] or str(FOLDER / "gpu_sim" / "nothing")
    return found


class GpuError(RuntimeError):
    """A status other than success."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function}: {status}")
        self.status = status


class Runtime:
    """One vendor's runtime; `call("Malloc", ...)` is cudaMalloc or hipMalloc."""

    def __init__(self, flavour: str) -> None:
        self.flavour = flavour
        self.amd = flavour.startswith("rocm")
        folder = FOLDER / "gpu_sim" / flavour
        runtime, lt, blas = LIBRARIES[flavour]
        self.library = ctypes.CDLL(str(folder / runtime))
        self.lt = ctypes.CDLL(str(folder / lt))
        self.blas = ctypes.CDLL(str(folder / blas)) if blas else None
        self.library.sim_gpu_count.restype = c_int64
        self.library.sim_gpu_memory_used.restype = c_size_t
        self.library.sim_gpu_algo_ms.restype = c_double

    def status(self, name: str, *arguments: Any) -> int:
        return int(self.library[("hip" if self.amd else "cuda") + name](*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        status = self.status(name, *arguments)
        if status != 0:
            raise GpuError(name, status)

    def count(self, what: str) -> int:
        return int(self.library.sim_gpu_count(c_char_p(what.encode())))

    def faults(self, specification: str) -> None:
        self.library.sim_gpu_set_faults(c_char_p(specification.encode()))

    def release(self) -> None:
        self.library.sim_gpu_release()

    def fresh(self) -> None:
        """No faults, no counts, healthy cards, the first one current."""
        self.faults("")
        self.library.sim_gpu_heal()
        self.library.sim_gpu_reset_counts()
        self.call("SetDevice", 0)
        self.status("GetLastError")

    def made(self, name: str, *arguments: Any) -> c_void_p:
        """What a function gives back through its first argument."""
        out = c_void_p()
        self.call(name, byref(out), *arguments)
        return out

    def malloc(self, size: int) -> c_void_p:
        return self.made("Malloc", c_size_t(size))

    def free(self, memory: c_void_p) -> None:
        self.call("Free", memory)

    def upload(self, array: np.ndarray[Any, Any]) -> c_void_p:
        memory = self.malloc(array.nbytes)
        self.copy_in(memory, array)
        return memory

    def copy_in(self, memory: c_void_p, array: np.ndarray[Any, Any]) -> None:
        rows = np.ascontiguousarray(array)
        self.call("Memcpy", memory, c_void_p(rows.ctypes.data), c_size_t(rows.nbytes), TO_DEVICE)

    def download(self, memory: c_void_p, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
        array = np.empty(shape, dtype)
        self.call("Memcpy", c_void_p(array.ctypes.data), memory, c_size_t(array.nbytes), TO_HOST)
        return array

    def stream(self, flags: int = NON_BLOCKING) -> c_void_p:
        return self.made("StreamCreateWithFlags", flags)

    def event(self) -> c_void_p:
        return self.made("EventCreateWithFlags", 0)

    def synchronize(self, stream: c_void_p | None = None) -> None:
        self.call("StreamSynchronize", stream)

    def time(self, work: Callable[[], None], stream: c_void_p | None = None) -> float:
        """Simulated milliseconds of what `work` queues."""
        begin, end = self.event(), self.event()
        self.call("EventRecord", begin, stream)
        work()
        self.call("EventRecord", end, stream)
        self.call("EventSynchronize", end)
        ms = c_float()
        self.call("EventElapsedTime", byref(ms), begin, end)
        self.call("EventDestroy", begin)
        self.call("EventDestroy", end)
        return ms.value
