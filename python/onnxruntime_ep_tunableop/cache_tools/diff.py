"""How two files of tuning results differ: in entries, choices, times, denials; not in weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from . import text
from .document import Denied, Document, Entry, FormChoice, Machine, NodeTimes, Section

_TIMES = (
    ("", "milliseconds"),
    ("default ", "default_milliseconds"),
    ("stock ", "stock_milliseconds"),
)


@dataclass(frozen=True)
class Moved:
    """A time that two files have differently."""

    what: str  #: "", "default " or "stock "
    before: float  #: milliseconds
    after: float


@dataclass(frozen=True)
class Pair:
    """One problem in two files."""

    before: Entry
    after: Entry
    moved: tuple[Moved, ...]  #: beyond the ratio

    @property
    def other_kernel(self) -> bool:
        """The choices differ."""
        return (self.before.kernel, self.before.identity) != (self.after.kernel, self.after.identity)

    @property
    def other_verdict(self) -> bool:
        """Whether stock is faster differs."""
        return self.before.stock_wins != self.after.stock_wins


@dataclass(frozen=True)
class MachineDifference:
    """One machine in two files."""

    machine: Machine
    only_before: list[Entry] = field(default_factory=list)
    only_after: list[Entry] = field(default_factory=list)
    changed: list[Pair] = field(default_factory=list)
    denied_before: list[Denied] = field(default_factory=list)
    denied_after: list[Denied] = field(default_factory=list)
    nodes: list[tuple[NodeTimes | None, NodeTimes | None]] = field(default_factory=list)
    forms: list[tuple[FormChoice | None, FormChoice | None]] = field(default_factory=list)
    same: int = 0  #: entries

    @property
    def differs(self) -> bool:
        """Something does."""
        lists = (self.only_before, self.only_after, self.changed)
        return any(lists) or any((self.denied_before, self.denied_after, self.nodes, self.forms))


@dataclass(frozen=True)
class Difference:
    """Two files."""

    machines: list[MachineDifference]
    only_before: list[Section]
    only_after: list[Section]

    @property
    def differs(self) -> bool:
        """Something does."""
        return bool(self.only_before or self.only_after) or any(one.differs for one in self.machines)


def compare(before: Document, after: Document, ratio: float, across: bool = False) -> Difference:
    """Machine by machine; `across`: the first machine of one with the first of the other.

    Times differ where the larger is more than `ratio` times the smaller.
    """
    if across:
        pairs = list(zip(before.sections[:1], after.sections[:1], strict=False))
        return Difference([_compare(a, b, ratio) for a, b in pairs], [], [])
    there = {section.machine: section for section in after.sections}
    return Difference(
        machines=[_compare(a, there[a.machine], ratio) for a in before.sections if a.machine in there],
        only_before=[a for a in before.sections if a.machine not in there],
        only_after=_without(after.sections, {a.machine for a in before.sections}),
    )


def _without(sections: Iterable[Section], machines: set[Machine]) -> list[Section]:
    return [section for section in sections if section.machine not in machines]


def _compare(before: Section, after: Section, ratio: float) -> MachineDifference:
    theirs = {entry.key: entry for entry in after.entries}
    ours = {entry.key for entry in before.entries}
    pairs = [_pair(entry, theirs[entry.key], ratio) for entry in before.entries if entry.key in theirs]
    changed = [pair for pair in pairs if pair.moved or pair.other_kernel or pair.other_verdict]
    denied = {_kernel(denied) for denied in after.denied}
    was_denied = {_kernel(denied) for denied in before.denied}
    return MachineDifference(
        machine=before.machine,
        only_before=[entry for entry in before.entries if entry.key not in theirs],
        only_after=[entry for entry in after.entries if entry.key not in ours],
        changed=changed,
        denied_before=[one for one in before.denied if _kernel(one) not in denied],
        denied_after=[one for one in after.denied if _kernel(one) not in was_denied],
        nodes=_nodes(before.nodes, after.nodes),
        forms=_forms(before.forms, after.forms),
        same=len(pairs) - len(changed),
    )


def _kernel(denied: Denied) -> tuple[str, str, str]:
    return denied.library, denied.kernel, denied.library_identity


def _nodes(
    before: Sequence[NodeTimes], after: Sequence[NodeTimes]
) -> list[tuple[NodeTimes | None, NodeTimes | None]]:
    """Those that one file has only, or that run on another provider."""

    def keyed(nodes: Sequence[NodeTimes]) -> dict[tuple[str, str, int, int], NodeTimes]:
        return {(node.op, node.name, node.k, node.n): node for node in nodes}

    ours, theirs = keyed(before), keyed(after)
    pairs = [(ours.get(key), theirs.get(key)) for key in ours | theirs]
    return [(a, b) for a, b in pairs if a is None or b is None or a.stock != b.stock]


def _forms(
    before: Sequence[FormChoice], after: Sequence[FormChoice]
) -> list[tuple[FormChoice | None, FormChoice | None]]:
    """Those that one file has only, or in which another form was chosen."""
    ours = {(form.group, form.shape): form for form in before}
    theirs = {(form.group, form.shape): form for form in after}
    pairs = [(ours.get(key), theirs.get(key)) for key in ours | theirs]
    return [(a, b) for a, b in pairs if a is None or b is None or a.form != b.form]


def _pair(before: Entry, after: Entry, ratio: float) -> Pair:
    moved = []
    for what, name in _TIMES:
        a, b = float(getattr(before, name)), float(getattr(after, name))
        if max(a, b) > ratio * min(a, b):
            moved.append(Moved(what, a, b))
    return Pair(before, after, tuple(moved))


def report(difference: Difference) -> str:
    """For a person; one line for each thing that differs, '<' for the first file and '>' for the second."""
    lines: list[str] = []
    for mark, sections in (("<", difference.only_before), (">", difference.only_after)):
        for section in sections:
            entries = text.count(len(section.entries), "entry", "entries")
            lines.append(f"{mark} machine {text.printable(str(section.machine))}: {entries}")
    if len(difference.only_before) == 1 and len(difference.only_after) == 1:
        fields = difference.only_before[0].machine.difference(difference.only_after[0].machine)
        lines.append(f"  the two machines differ in {text.printable(fields)}")
    for machine in difference.machines:
        same = text.count(machine.same, "entry is the same", "entries are the same")
        lines.append(f"machine {text.printable(str(machine.machine))}: {same}")
        lines += [f"  {line}" for line in _machine(machine)]
    return "\n".join(lines) if lines else "no machine's results in either"


def _machine(difference: MachineDifference) -> list[str]:
    lines = [f"< {_said(entry)}" for entry in difference.only_before]
    lines += [f"> {_said(entry)}" for entry in difference.only_after]
    for pair in difference.changed:
        parts = []
        if pair.before.kernel != pair.after.kernel:
            parts.append(f"{pair.before.kernel} -> {pair.after.kernel}")
        elif pair.other_kernel:
            parts.append(f"{pair.before.kernel} of {pair.before.identity} -> of {pair.after.identity}")
        if pair.other_verdict:
            parts.append("stock wins no longer" if pair.before.stock_wins else "stock wins now")
        parts += [_time(moved) for moved in pair.moved]
        lines.append(text.printable(f"~ ({pair.before.name}): {', '.join(parts)}"))
    for mark, denials in (("<", difference.denied_before), (">", difference.denied_after)):
        lines += [
            text.printable(f"{mark} denied {one.library}:{one.kernel}: {one.reason}") for one in denials
        ]
    for before, after in difference.nodes:
        node = before or after
        assert node is not None
        mark = "<" if after is None else (">" if before is None else "~")
        runs = "the stock provider" if (after or node).stock else "this provider"
        lines.append(text.printable(f"{mark} node {node.op} {node.name} runs on {runs}"))
    for was, now in difference.forms:
        form = now or was
        assert form is not None
        mark = "<" if now is None else (">" if was is None else "~")
        change = f"{was.form} -> {now.form}" if was is not None and now is not None else form.form
        lines.append(text.printable(f"{mark} form {form.group} ({form.shape}): {change}"))
    return lines


def _said(entry: Entry) -> str:
    bucket = f" m={entry.m_low}..{entry.m_high}" if entry.is_bucket else ""
    time = f", {entry.milliseconds:.4g} ms" if entry.milliseconds > 0 else ""
    return text.printable(f"({entry.name}){bucket}: {entry.kernel}{time}")


def _time(moved: Moved) -> str:
    if min(moved.before, moved.after) <= 0:
        return f"{moved.what}{text.milliseconds(moved.before)} ms -> {text.milliseconds(moved.after)} ms"
    change = moved.after / moved.before
    return f"{moved.what}{moved.before:.4g} ms -> {moved.after:.4g} ms ({change:.2f}x)"
