"""What the doctor was asked to look at."""

from __future__ import annotations

import os
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
