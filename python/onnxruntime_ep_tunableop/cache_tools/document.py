"""A file of tuning results, typed (docs/tuning-results.md).

The native side reads and judges the file; what stands here is what it found valid, each section as the
machine would find it that the section belongs to.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _core
from ..errors import TunableOpError
from .text import printable


class UnusableError(TunableOpError):
    """Nothing of the file can be used; the message is what the loader says."""


@dataclass(frozen=True)
class Machine:
    """Where entries were measured."""

    device: str  #: "cpu", or the kind of GPU
    model: str
    features: str
    cores: int

    def __str__(self) -> str:
        """For a person, on one line."""
        units = "processor" if self.device == "cpu" else "multiprocessor"
        plural = "" if self.cores == 1 else "s"
        return f"{self.device}: {self.model}, {self.cores} {units}{plural}"

    def difference(self, other: Machine) -> str:
        """The fields that differ: "cores 8 / 4, features 'avx' / 'avx avx2'"; empty when equal."""
        parts = [
            f"{name} {ours!r} / {theirs!r}"
            for name, ours in vars(self).items()
            if ours != (theirs := getattr(other, name))
        ]
        return ", ".join(parts)


@dataclass(frozen=True)
class Entry:
    """One problem, and the kernel that was chosen for it."""

    name: str  #: of the problem, as explain says it
    key: str  #: equal for entries of which merging keeps one
    m: int
    n: int
    k: int
    batch: int
    dtype: str  #: "fp32"; "fp16xfp16->fp32" where operands and result differ
    library: str
    kernel: str  #: with its library
    identity: str  #: version and build of the library
    milliseconds: float  #: 0: not measured
    default_milliseconds: float
    default_kernel: str
    error: float
    tried: int
    budget_milliseconds: float  #: above 0: there was no time for a race
    stock_milliseconds: float  #: 0: not measured
    stock_wins: bool
    cold: bool
    temperature_c: float
    clock_mhz: float
    confirmations: int
    uses: int  #: calls that are known of: its own count or that of the problem in `seen`, the larger
    m_low: int
    m_high: int
    measured_at: int  #: seconds since 1970
    fields: Mapping[str, Any]  #: as the file has them

    @property
    def is_bucket(self) -> bool:
        """It serves every m from m_low to m_high."""
        return self.m_low != 0 or self.m_high != 0

    @property
    def gain(self) -> float | None:
        """Default's time over the winner's; None: one of them was not measured."""
        if self.milliseconds <= 0 or self.default_milliseconds <= 0:
            return None
        return _sane(self.default_milliseconds / self.milliseconds)

    @property
    def gflops(self) -> float | None:
        """1e9 floating-point operations a second; None: not measured."""
        if self.milliseconds <= 0:
            return None
        return _sane(2.0 * self.m * self.n * self.k * self.batch / self.milliseconds / 1e6)

    @property
    def saved_seconds(self) -> float:
        """Against the default kernel, over all uses that are known."""
        if self.gain is None:
            return 0.0
        return _sane(self.uses * (self.default_milliseconds - self.milliseconds) / 1e3) or 0.0

    @property
    def flags(self) -> list[str]:
        """What is special about it, in words of the command line."""
        flags = [f"bucket m={self.m_low}..{self.m_high}"] if self.is_bucket else []
        flags += ["cold"] if self.cold else []
        flags += ["stock wins"] if self.stock_wins else []
        flags += ["no race"] if self.budget_milliseconds > 0 or self.milliseconds <= 0 else []
        return flags


@dataclass(frozen=True)
class Seen:
    """A problem that was met."""

    name: str
    key: str
    measured: bool  #: an entry serves it, its own or a bucket's
    uses: int
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class NodeTimes:
    """What a node of a model takes, in all its shapes; field names as in the file."""

    op: str
    name: str
    k: int
    n: int
    uses: int
    ours_ms: float
    stock_ms: float
    stock: bool
    measured_at: int


@dataclass(frozen=True)
class FormChoice:
    """In which of several ways a group of nodes is run, for one shape; field names as in the file."""

    group: str
    shape: str
    form: str
    usual_form: str
    library_identity: str
    form_ms: float
    usual_ms: float
    cold: bool
    measured_at: int

    @property
    def gain(self) -> float | None:
        """Usual form's time over this one's; None: one of them was not measured."""
        if self.form_ms <= 0 or self.usual_ms <= 0:
            return None
        return _sane(self.usual_ms / self.form_ms)


@dataclass(frozen=True)
class Denied:
    """A kernel that must not run; field names as in the file."""

    library: str
    kernel: str
    library_identity: str
    reason: str
    deaths: int
    denied_at: int
    until: int  #: 0: for good


@dataclass(frozen=True)
class Spent:
    """Time spent measuring on one day."""

    day: int  #: since 1970
    ms: float


@dataclass(frozen=True)
class Section:
    """What a file knows of one machine."""

    machine: Machine
    entries: tuple[Entry, ...]
    seen: tuple[Seen, ...]
    nodes: tuple[NodeTimes, ...]
    forms: tuple[FormChoice, ...]
    denied: tuple[Denied, ...]
    spent: Spent | None
    lossy: bool  #: something of it was refused


@dataclass(frozen=True)
class Document:
    """What a file holds."""

    sections: tuple[Section, ...]
    unreadable: int  #: sections of nobody knows which machine
    problems: tuple[str, ...]  #: one line for each thing that was refused
    unusable: str  #: why nothing of it can be used; empty when it can


def read(path: str | os.PathLike[str]) -> Document:
    """Reads a file.

    Raises:
        FileNotFoundError: there is none.
        UnusableError: nothing of it can be used.
    """
    document = of_reading(_core.read_results(Path(path)))
    if document.unusable:
        raise UnusableError(printable(document.problems[0]))
    return document


def of_reading(reading: _core.ResultsReading) -> Document:
    """What the native side found, typed."""
    return Document(
        sections=tuple(_section(machine) for machine in reading["machines"]),
        unreadable=reading["unreadable"],
        problems=tuple(reading["problems"]),
        unusable=reading["unusable"],
    )


def _section(machine: _core.MachineReading) -> Section:
    content = json.loads(machine["section"])
    entries = zip(content["entries"], machine["entry_names"], machine["entry_keys"], strict=True)
    seen = zip(
        content.get("seen", []),
        machine["seen_names"],
        machine["seen_keys"],
        machine["seen_measured"],
        strict=True,
    )
    met = dict(zip(machine["seen_keys"], (one["uses"] for one in content.get("seen", [])), strict=True))
    return Section(
        machine=Machine(**content["fingerprint"]),
        entries=tuple(_entry(fields, name, key, met.get(key, 0)) for fields, name, key in entries),
        seen=tuple(Seen(name, key, measured, f["uses"], f) for f, name, key, measured in seen),
        nodes=tuple(NodeTimes(**fields) for fields in content.get("nodes", [])),
        forms=tuple(FormChoice(**fields) for fields in content.get("forms", [])),
        denied=tuple(Denied(**fields) for fields in content.get("denied", [])),
        spent=Spent(**content["spent"]) if "spent" in content else None,
        lossy=machine["lossy"],
    )


def _entry(fields: Mapping[str, Any], name: str, key: str, met: int) -> Entry:
    winner = fields["winner"]
    return Entry(
        name=name,
        key=key,
        m=fields["m"],
        n=fields["n"],
        k=fields["k"],
        batch=fields["batch"],
        dtype=_type(fields),
        library=winner["library"],
        kernel=f"{winner['library']}:{winner['kernel']}",
        identity=fields["library_identity"],
        milliseconds=fields["winner_ms"],
        default_milliseconds=fields["default_ms"],
        default_kernel=fields["default_kernel"],
        error=fields["error"],
        tried=fields["tried"],
        budget_milliseconds=fields["budget_ms"],
        stock_milliseconds=fields.get("stock_ms", 0.0),
        stock_wins=fields.get("stock_wins", False),
        cold=fields.get("cold_b", False),
        temperature_c=fields.get("temperature_c", 0.0),
        clock_mhz=fields.get("clock_mhz", 0.0),
        confirmations=fields.get("confirmations", 0),
        uses=max(fields.get("uses", 0), met),
        m_low=fields.get("m_low", 0),
        m_high=fields.get("m_high", 0),
        measured_at=fields["measured_at"],
        fields=fields,
    )


def _sane(value: float) -> float | None:
    """None for what came of times that no clock has measured: 1e-320 ms is a valid number."""
    return value if value != 0 and math.isfinite(value) else None


def _type(fields: Mapping[str, Any]) -> str:
    types = [str(fields[name]) for name in ("a_type", "b_type", "c_type")]
    return types[0] if len(set(types)) == 1 else f"{types[0]}x{types[1]}->{types[2]}"
