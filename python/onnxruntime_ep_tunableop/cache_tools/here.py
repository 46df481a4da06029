"""What this machine's sessions could run on, as the provider itself says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from .. import _core
from .._library import get_library_path, register
from .document import Machine


@dataclass(frozen=True)
class Target:
    """A device that sessions can run on."""

    device: str  #: "cpu", "cuda:0"
    machine: Machine  #: what its results are kept under
    libraries: Mapping[str, str]  #: name: version and build


def targets() -> list[Target]:
    """The CPU, then the cards that a library can run on."""
    register()  # which finds what a session would have
    found = json.loads(_core.control(get_library_path(), "targets", "{}"))
    return [Target(one["device"], Machine(**one["fingerprint"]), one["libraries"]) for one in found]
