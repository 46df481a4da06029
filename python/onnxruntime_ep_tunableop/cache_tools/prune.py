"""What goes when a file of tuning results is cut down."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import _core
from . import text
from .document import Denied, Entry, FormChoice, Machine, NodeTimes, Section, UnusableError, of_reading
from .here import Target

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def duration(written: str) -> float:
    """ "30d" in seconds. ValueError: says what was expected."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", written)
    if match is None:
        raise ValueError(f"expected a number and one of s, m, h, d, w (30d, 12h), found '{written}'")
    return float(match[1]) * _SECONDS[match[2]]


@dataclass(frozen=True)
class Criteria:
    """What goes: whatever one of them names. Denials go with `denied` or their whole machine only."""

    older_than: float | None = None  #: seconds since it was measured: entries, nodes and forms
    unused: bool = False  #: entries without a known use, of their own or of their problem in `seen`
    other_machines: bool = False  #: sections that no device of this machine has
    other_libraries: bool = False  #: entries of this machine whose library is another version, or absent
    keep: int | None = None  #: of each machine the entries with most uses, at most so many
    denied: bool = False

    def __bool__(self) -> bool:
        """There is one."""
        given = (self.unused, self.other_machines, self.other_libraries, self.denied)
        return any(given) or self.older_than is not None or self.keep is not None


@dataclass(frozen=True)
class PrunedMachine:
    """What goes of one machine."""

    machine: Machine
    whole: bool = False
    entries: list[tuple[Entry, str]] = field(default_factory=list)  #: with the reason
    nodes: list[tuple[NodeTimes, str]] = field(default_factory=list)
    forms: list[tuple[FormChoice, str]] = field(default_factory=list)
    denied: list[Denied] = field(default_factory=list)
    left: int = 0  #: entries that stay


@dataclass(frozen=True)
class Pruned:
    """What went, or with dry_run would have gone."""

    machines: list[PrunedMachine]
    unreadable: int  #: sections that stay, since nobody knows whose they are
    set_aside: str = ""  #: where the old file is kept: something in it was not understood

    @property
    def nothing(self) -> bool:
        """The file stays as it is."""
        return not any(m.whole or m.entries or m.nodes or m.forms or m.denied for m in self.machines)


def prune(
    path: Path, criteria: Criteria, here: Sequence[Target], now: float, dry_run: bool = False
) -> Pruned:
    """Takes out what the criteria name, under the file's lock and atomically.

    Raises:
        FileNotFoundError: there is no such file.
        UnusableError: nothing of it can be used; it is untouched.
        OSError: it cannot be written; it is untouched.
    """
    found: list[Pruned] = []

    def choose(reading: _core.ResultsReading) -> list[_core.Removal]:
        document = of_reading(reading)
        if document.unusable:
            raise UnusableError(text.printable(document.problems[0]))
        chosen = [_choose(section, criteria, here, now) for section in document.sections]
        machines = [
            _describe(section, removal) for section, removal in zip(document.sections, chosen, strict=True)
        ]
        found.append(Pruned(machines, document.unreadable))
        removals = [
            _removal(number, section, choice)
            for number, (section, choice) in enumerate(zip(document.sections, chosen, strict=True))
        ]
        parts = ("whole", "entries", "nodes", "forms", "denied")
        return [one for one in removals if any(one[part] for part in parts)]  # type: ignore[literal-required]

    if dry_run:
        choose(_core.read_results(path))
        return found[0]
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    set_aside = _core.remove_results(path, choose)
    return Pruned(found[0].machines, found[0].unreadable, set_aside)


@dataclass(frozen=True)
class _Choice:
    """Reasons by position."""

    whole: bool
    entries: Mapping[int, str]
    nodes: Mapping[int, str]
    forms: Mapping[int, str]
    denied: bool


def _choose(section: Section, criteria: Criteria, here: Sequence[Target], now: float) -> _Choice:
    libraries = {target.machine: target.libraries for target in here}.get(section.machine)
    if criteria.other_machines and libraries is None:
        return _Choice(True, {}, {}, {}, False)
    entries: dict[int, str] = {}
    for at, entry in enumerate(section.entries):
        if reason := _reason(entry, criteria, libraries, now):
            entries[at] = reason
    if criteria.keep is not None:
        stay = [at for at in range(len(section.entries)) if at not in entries]
        stay.sort(key=lambda at: (-section.entries[at].uses, -section.entries[at].measured_at, at))
        entries |= dict.fromkeys(stay[criteria.keep :], f"not among the {criteria.keep} most used")
    nodes = _old([node.measured_at for node in section.nodes], criteria, now)
    forms = _old([form.measured_at for form in section.forms], criteria, now)
    if criteria.other_libraries and libraries is not None:
        for at, form in enumerate(section.forms):
            # Of all libraries, each with its name: "0.1.0 cublaslt 13.1.0+sm_90".
            own = form.library_identity + " "
            if any(f" {name} " in own and f" {name} {it} " not in own for name, it in libraries.items()):
                forms[at] = f"of {form.library_identity}, and others are loaded"
    return _Choice(False, entries, nodes, forms, criteria.denied)


def _old(moments: Sequence[int], criteria: Criteria, now: float) -> dict[int, str]:
    if criteria.older_than is None:
        return {}
    ages = [now - moment for moment in moments]
    return {at: f"measured {text.age(age)} ago" for at, age in enumerate(ages) if age > criteria.older_than}


def _reason(entry: Entry, criteria: Criteria, libraries: Mapping[str, str] | None, now: float) -> str:
    """Why it goes; empty: it stays."""
    if criteria.older_than is not None and now - entry.measured_at > criteria.older_than:
        return f"measured {text.age(now - entry.measured_at)} ago"
    if criteria.unused and entry.uses == 0:
        return "never used"
    if criteria.other_libraries and libraries is not None:
        loaded = libraries.get(entry.library)
        if loaded is None:
            return f"{entry.library} is not loaded here"
        if loaded != entry.identity:
            return f"of {entry.library} {entry.identity}, and {loaded} is loaded"
    return ""


def _describe(section: Section, choice: _Choice) -> PrunedMachine:
    return PrunedMachine(
        machine=section.machine,
        whole=choice.whole,
        entries=[(section.entries[at], why) for at, why in sorted(choice.entries.items())],
        nodes=[(section.nodes[at], why) for at, why in sorted(choice.nodes.items())],
        forms=[(section.forms[at], why) for at, why in sorted(choice.forms.items())],
        denied=list(section.denied) if choice.denied else [],
        left=0 if choice.whole else len(section.entries) - len(choice.entries),
    )


def _removal(number: int, section: Section, choice: _Choice) -> _core.Removal:
    return {
        "machine": number,
        "whole": choice.whole,
        "entries": sorted(choice.entries),
        "seen": [],
        "nodes": sorted(choice.nodes),
        "forms": sorted(choice.forms),
        "denied": list(range(len(section.denied))) if choice.denied else [],
    }


def report(pruned: Pruned, path: Path, dry_run: bool) -> str:
    """For a person."""
    lines = []
    for machine in pruned.machines:
        name = text.printable(str(machine.machine))
        if machine.whole:
            lines.append(f"machine {name}: goes whole, it is not this machine's")
            continue
        gone = [f"({entry.name}): {entry.kernel}, {why}" for entry, why in machine.entries]
        gone += [f"node {node.op} {node.name}: {why}" for node, why in machine.nodes]
        gone += [f"form {form.group} ({form.shape}): {form.form}, {why}" for form, why in machine.forms]
        gone += [f"denied {one.library}:{one.kernel}: {one.reason}" for one in machine.denied]
        if gone:
            left = text.count(machine.left, "entry stays", "entries stay")
            lines.append(f"machine {name}: {left}")
            lines += [text.printable(f"  gone: {line}") for line in gone]
    if pruned.unreadable:
        lines.append(f"{text.count(pruned.unreadable, 'section')} of a machine that cannot be told: kept")
    if pruned.set_aside:
        lines.append(f"set aside: what {path} held before is kept in {pruned.set_aside}")
    entries = sum(len(machine.entries) for machine in pruned.machines)
    machines = sum(machine.whole for machine in pruned.machines)
    others = sum(len(machine.nodes) + len(machine.denied) for machine in pruned.machines)
    forms = sum(len(machine.forms) for machine in pruned.machines)
    if pruned.nothing:
        lines.append(f"{path}: nothing to take out")
    else:
        parts = [text.count(entries, "entry", "entries")]
        parts += [text.count(machines, "machine")] if machines else []
        parts += [text.count(others, "node or denial", "nodes and denials")] if others else []
        parts += [text.count(forms, "form of a group", "forms of groups")] if forms else []
        said = "would go" if dry_run else "gone"
        lines.append(f"{path}: {', '.join(parts)} {said}")
    return "\n".join(lines)
