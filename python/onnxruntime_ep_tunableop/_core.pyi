"""The native module: all that it holds, which is what the package itself uses."""

import os
from typing import TypedDict

__version__: str

class LibraryState(TypedDict):
    """One GEMM library that the project knows, present or not."""

    library: str
    available: bool
    identity: str
    path: str
    reason: str

class Fingerprint(TypedDict):
    """What a measurement depends on beside the problem."""

    device: str
    model: str
    features: str
    cores: int

class Gpu(TypedDict):
    """A card that a vendor's runtime finds, whether or not a library can run on it."""

    backend: str
    ordinal: int
    name: str
    arch: str
    pci_bus_id: str
    compute_units: int
    memory_bytes: int
    driver: str
    runtime: str
    libraries: dict[str, str]
    reason: str

class Call(TypedDict):
    """A call of a kernel that was tried."""

    library: str
    kernel: str
    problem: str

class JournalView(Call):
    """What a measuring process is doing; the call's texts are empty outside of one."""

    in_call: bool
    calls: int

def control(library_path: str, method: str, arguments: str) -> str: ...
def watch_journal(cache: str | os.PathLike[str], pid: int) -> JournalView | None: ...
def last_call(cache: str | os.PathLike[str], pid: int) -> Call | None: ...
def gpus() -> list[Gpu]: ...
def gpu_libraries() -> list[LibraryState]: ...
def libraries() -> list[LibraryState]: ...
def cpu_fingerprint() -> Fingerprint: ...
def set_openblas_search_path(path: str) -> None: ...
