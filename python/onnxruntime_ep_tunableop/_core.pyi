"""The native module: all that it holds, which is what the package itself uses."""

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

def control(library_path: str, method: str, arguments: str) -> str: ...
def libraries() -> list[LibraryState]: ...
def cpu_fingerprint() -> Fingerprint: ...
def set_openblas_search_path(path: str) -> None: ...
