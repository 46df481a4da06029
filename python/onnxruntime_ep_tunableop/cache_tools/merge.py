"""Files of tuning results merged into one, and what that did."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import _core
from . import text
from .document import Document, Entry, Machine, Section, of_reading


class SourceError(Exception):
    """A file to be merged cannot be used; nothing was merged."""


@dataclass(frozen=True)
class MergedMachine:
    """What merging did to one machine's results."""

    machine: Machine
    is_new: bool
    added: list[Entry] = field(default_factory=list)
    replaced: list[tuple[Entry, Entry]] = field(default_factory=list)
    kept: list[tuple[Entry, Entry]] = field(default_factory=list)  #: there, and what came and lost
    counted: int = 0  #: entries of which only the uses grew
    seen: int = 0  #: problems that came in
    nodes: int = 0
    forms: int = 0
    denied: int = 0
    over: int = 0  #: denials whose time is over, which went

    @property
    def changed(self) -> bool:
        """Something came in, or was replaced."""
        parts = (self.added, self.replaced, self.counted, self.seen, self.nodes, self.denied, self.over)
        return self.is_new or self.forms > 0 or any(parts)


@dataclass(frozen=True)
class Merged:
    """What merging did."""

    machines: list[MergedMachine]
    refused: tuple[str, ...]  #: one line for each element of a source that stayed behind
    written: bool
    set_aside: str  #: where the old file is kept: something in it was not understood


def merge(out: Path, sources: Sequence[Path]) -> Merged:
    """Merges `sources` into `out` as a save does: under its lock, atomically; created if missing.

    Raises:
        SourceError: a source is missing, cannot be used, or is `out` itself; `out` is untouched.
        OSError: `out` cannot be written; it is untouched.
    """
    for source in sources:
        if not source.exists():
            raise SourceError(f"{source}: there is no such file")
        if out.exists() and out.samefile(source):
            raise SourceError(f"{source}: is the file that it would be merged into")
    done = _core.merge_results(out, list(sources))
    incoming = [of_reading(source) for source in done["sources"]]
    if unusable := [text.printable(source.problems[0]) for source in incoming if source.unusable]:
        raise SourceError("\n".join(unusable))
    before, after = of_reading(done["before"]), of_reading(done["after"])
    there = {section.machine: section for section in before.sections}
    return Merged(
        machines=[_machine(there.get(section.machine), section, incoming) for section in after.sections],
        refused=tuple(line for source in incoming for line in source.problems),
        written=done["written"],
        set_aside=done["set_aside"],
    )


def _machine(before: Section | None, after: Section, incoming: Sequence[Document]) -> MergedMachine:
    was = {entry.key: entry for entry in before.entries} if before else {}
    now = {entry.key: entry for entry in after.entries}
    came = [
        entry
        for source in incoming
        for section in source.sections
        if section.machine == after.machine
        for entry in section.entries
    ]
    replaced = [(was[key], entry) for key, entry in now.items() if key in was and _other(was[key], entry)]
    lost = {
        key: (now[key], entry)
        for entry in came
        if (key := entry.key) in was and not _other(was[key], now[key]) and _other(now[key], entry)
    }
    return MergedMachine(
        machine=after.machine,
        is_new=before is None,
        added=[entry for key, entry in now.items() if key not in was],
        replaced=replaced,
        kept=list(lost.values()),
        counted=sum(
            key in was and not _other(was[key], entry) and _counted(was[key]) != _counted(entry)
            for key, entry in now.items()
        ),
        seen=_fresh([one.key for one in before.seen] if before else (), [one.key for one in after.seen]),
        nodes=_fresh(before.nodes if before else (), after.nodes),
        forms=_fresh(before.forms if before else (), after.forms),
        denied=_fresh(before.denied if before else (), after.denied),
        over=len(_gone(before, after)),
    )


def _fresh(before: Iterable[Hashable], after: Iterable[Hashable]) -> int:
    """New or changed ones."""
    return len(set(after) - set(before))


def _gone(before: Section | None, after: Section) -> set[tuple[str, str, str]]:
    def kernels(section: Section | None) -> set[tuple[str, str, str]]:
        return {(d.library, d.kernel, d.library_identity) for d in section.denied} if section else set()

    return kernels(before) - kernels(after)


def _counted(entry: Entry) -> int:
    """Its own count, without what is seen of its problem."""
    return int(entry.fields.get("uses", 0))


def _other(one: Entry, two: Entry) -> bool:
    """They differ in more than in uses."""
    return {**one.fields, "uses": 0} != {**two.fields, "uses": 0}


def report(merged: Merged, out: Path) -> str:
    """For a person."""
    lines = []
    for machine in merged.machines:
        if not machine.changed and not machine.kept:
            continue
        new = " (new in the file)" if machine.is_new else ""
        lines.append(f"machine {text.printable(str(machine.machine))}{new}")
        lines += [f"  {text.printable(line)}" for line in _said(machine)]
    lines += [f"refused: {text.printable(line)}" for line in merged.refused]
    if merged.set_aside:
        lines.append(f"set aside: what {out} held before is kept in {merged.set_aside}")
    added = sum(len(machine.added) for machine in merged.machines)
    replaced = sum(len(machine.replaced) for machine in merged.machines)
    if merged.written:
        came = text.count(added, "entry", "entries")
        lines.append(f"{out}: {came} came in, {replaced} replaced, {len(merged.refused)} refused")
    else:
        lines.append(f"{out}: nothing new, and not written")
    return "\n".join(lines)


def _said(machine: MergedMachine) -> list[str]:
    lines = [f"in: ({entry.name}): {entry.kernel}, {_time(entry)}" for entry in machine.added]
    for old, new in machine.replaced:
        change = f"{old.kernel}, {_time(old)} -> {new.kernel}, {_time(new)}"
        lines.append(f"replaced: ({new.name}): {change}, {_why(old, new)}")
    for there, lost in machine.kept:
        lines.append(
            f"kept: ({there.name}): {there.kernel}, {_time(there)}; not {lost.kernel}, {_why(lost, there)}"
        )
    parts = (
        (machine.counted, "entry with more uses", "entries with more uses"),
        (machine.seen, "problem seen", "problems seen"),
        (machine.nodes, "node", "nodes"),
        (machine.forms, "form of a group", "forms of groups"),
        (machine.denied, "denied kernel", "denied kernels"),
    )
    lines += [f"in: {text.count(number, one, several)}" for number, one, several in parts if number]
    if machine.over:
        lines.append(f"gone: {text.count(machine.over, 'denial')} whose time is over")
    return lines


def _time(entry: Entry) -> str:
    return f"{entry.milliseconds:.4g} ms" if entry.milliseconds > 0 else "not measured"


def _why(loser: Entry, winner: Entry) -> str:
    """Why the one stays that did: the rules of docs/tuning-results.md."""
    if winner.measured_at > loser.measured_at:
        return f"measured {text.age(winner.measured_at - loser.measured_at)} later"
    if winner.measured_at == loser.measured_at:
        return "measured in the same second"
    return "which was in a race"
