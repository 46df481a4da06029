"""The native module: all that it holds, which is what the package itself uses."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import numpy.typing as npt

__version__: str

class GraphCall:
    """Launches one captured graph of a session."""

    def __init__(
        self, library_path: str, token: str, id: int, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        """Addresses of the buffers that were bound."""

    def run(self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> bool:
        """Copies in, launches, copies out. False: there is no graph now."""

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

class MachineReading(TypedDict):
    """A machine of a file of tuning results; lists go with the arrays of its section."""

    section: str  #: JSON
    entry_names: list[str]
    entry_keys: list[str]  #: equal for entries of which merging keeps one
    seen_names: list[str]
    seen_keys: list[str]
    seen_measured: list[bool]  #: an entry serves it, its own or a bucket's
    lossy: bool  #: something in it was refused

class ResultsReading(TypedDict):
    """What a file of tuning results holds, each section judged as its own machine would."""

    unusable: str
    machines: list[MachineReading]
    unreadable: int  #: sections of nobody knows which machine
    problems: list[str]

class MergeOutcome(TypedDict):
    """What merging files into one did."""

    before: ResultsReading
    after: ResultsReading
    sources: list[ResultsReading]
    written: bool
    set_aside: str  #: where the old file is kept, if something of it got lost

class Removal(TypedDict):
    """What to take out of one machine's section, by positions in its arrays."""

    machine: int
    whole: bool
    entries: list[int]
    seen: list[int]
    nodes: list[int]
    forms: list[int]
    denied: list[int]

def control(library_path: str, method: str, arguments: str) -> str: ...
def watch_journal(cache: str | os.PathLike[str], pid: int) -> JournalView | None: ...
def last_call(cache: str | os.PathLike[str], pid: int) -> Call | None: ...
def read_results(path: str | os.PathLike[str]) -> ResultsReading: ...
def load_results(path: str | os.PathLike[str], fingerprint: Fingerprint) -> tuple[str, list[str]]: ...
def merge_results(
    path: str | os.PathLike[str], sources: Sequence[str | os.PathLike[str]]
) -> MergeOutcome: ...
def remove_results(
    path: str | os.PathLike[str], choose: Callable[[ResultsReading], Sequence[Removal]]
) -> str: ...
def gpus() -> list[Gpu]: ...
def why_card_is_unusable(
    backend: str, ordinal: int
) -> str: ...  # makes its libraries ready; "": it is usable
def kernel_compiler(backend: str, ordinal: int) -> LibraryState: ...  # loads it
def kernel_cache_folder() -> str: ...  # "": compiled kernels are not kept
def gpu_libraries() -> list[LibraryState]: ...
def libraries() -> list[LibraryState]: ...
def cpu_fingerprint() -> Fingerprint: ...
def set_openblas_search_path(path: str) -> None: ...
