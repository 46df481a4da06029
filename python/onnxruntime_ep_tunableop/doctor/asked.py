"""What the doctor was asked to look at."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


def _root() -> Path:
    # As the native side has it: for tests, the folder in which /sys and /proc are looked for.
    return Path(os.environ.get("TUNABLEOP_SENSORS_ROOT") or "/")


@dataclass(frozen=True)
class Asked:
    """The words of the command line, or of a caller."""

    model: Path | None = None
    shapes: Sequence[Mapping[str, Sequence[int]]] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    cache: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)  #: of `tunableop.InferenceSession`, unchecked
    device: str = "auto"
    selftest: bool = False
    quick: bool = False
    root: Path = field(default_factory=_root)  #: where /sys, /proc and /dev are

    def words(self) -> str:
        """Shapes and sizes as they are given on a command line, with a blank before."""
        shapes = [
            ",".join(f"{name}:{'x'.join(map(str, sizes))}" for name, sizes in entry.items())
            for entry in self.shapes
        ]
        given = [f" --shape {shlex.quote(text)}" for text in shapes]
        return "".join(given + [f" --dim {shlex.quote(name)}={size}" for name, size in self.dims.items()])
