"""What a side of a comparison is asked for, and what it tells of itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypedDict

from numpy.typing import NDArray

from ..errors import TunableOpError

Feeds = Mapping[str, NDArray[Any]]
Kind = Literal["stock", "tunableop"]


class SideError(TunableOpError):
    """A side cannot be made, or cannot go on; the message says which side and why."""


@dataclass(frozen=True)
class SideSpec:
    """One session to measure.

    `providers`: of a stock side what it runs on, the CPU behind them; of ours the others beside it, none for
    the default. `options` are ours, as InferenceSession takes them. `threads`: None leaves it to ONNX
    Runtime. `concurrency`: how many threads make requests of the one session at the same time.
    """

    name: str
    kind: Kind
    model: Path
    providers: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    concurrency: int = 1

    def __post_init__(self) -> None:
        """Raises ValueError for a side that cannot be."""
        if self.kind == "stock" and not self.providers:
            raise ValueError(f"side '{self.name}': a stock side needs a provider")
        if self.kind == "stock" and self.options:
            raise ValueError(f"side '{self.name}': a stock side takes none of our options")
        if self.concurrency < 1 or (self.threads is not None and self.threads < 1):
            raise ValueError(f"side '{self.name}': threads and concurrency are at least 1")

    def with_options(self, **options: Any) -> SideSpec:
        """The same with these options of ours in place of what they were."""
        return replace(self, options={**self.options, **options})

    def as_json(self) -> dict[str, Any]:
        """For the worker, wherever it runs: paths are absolute texts."""
        return {
            "kind": self.kind,
            "model": str(self.model.absolute()),
            "providers": [[name, _portable(options)] for name, options in self.providers],
            "options": _portable(self.options),
            "threads": self.threads,
            "concurrency": self.concurrency,
        }


def _portable(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(key): str(Path(value).absolute()) if isinstance(value, os.PathLike) else value
        for key, value in options.items()
    }


class Facts(TypedDict):
    """What a side tells of itself once it is made. It is plain JSON."""

    onnxruntime: str  #: version
    python: str  #: version
    executable: str  #: of that Python
    pid: int
    providers: list[str]  #: of the session, in order
    available: list[str]  #: what that onnxruntime has
    nodes: list[tuple[str, str, int]]  #: [provider, operator, how many]; empty before onnxruntime 1.24
    import_seconds: float  #: NumPy, onnxruntime, our package for a side of ours; 0 in this process
    creation_seconds: float  #: the session, with our library's registration where that came with it


class Explained(TypedDict):
    """What `explain` says, its nodes and shapes as dictionaries."""

    nodes: list[dict[str, Any]]
    shapes: list[dict[str, Any]]
    notes: list[str]


class SideStats(TypedDict):
    """What a side of ours knows: `counters` are the fields of `Stats`. Of a stock side all is empty."""

    counters: dict[str, Any]
    explain: Explained
