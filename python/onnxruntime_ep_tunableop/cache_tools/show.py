"""What a file of tuning results says, for a person, as JSON and as CSV."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from . import text
from .document import Document, Entry, Section

MOST_ROWS = 30  # of a part, unless all are asked for

_HEADER = ("problem", "kernel", "ms", "default ms", "gain", "GFLOP/s", "uses", "saved", "age", "flags")
_LEFT = {"problem", "kernel", "flags", "node", "reason"}

COLUMNS = (
    *("machine", "device", "problem", "m", "n", "k", "batch", "dtype", "kernel", "ms", "default_kernel"),
    *("default_ms", "gain", "gflops", "stock_ms", "stock_wins", "uses", "saved_seconds", "error", "tried"),
    *("cold", "m_low", "m_high", "confirmations", "measured_at", "library_identity"),
)


@dataclass(frozen=True)
class Totals:
    """Sums over entries."""

    entries: int
    changed: int  #: another kernel than the default runs
    mean_gain: float  #: geometric, over the changed ones; 1 when there are none
    uses: int
    saved_seconds: float  #: against the default kernels, as measured, over the uses that are known
    used_seconds: float  #: what the same uses take


def totals(entries: Sequence[Entry]) -> Totals:
    """Of these entries."""
    changed = [e.gain for e in entries if e.gain is not None and e.kernel != e.default_kernel]
    return Totals(
        entries=len(entries),
        changed=len(changed),
        mean_gain=math.exp(sum(math.log(gain) for gain in changed) / len(changed)) if changed else 1.0,
        uses=sum(entry.uses for entry in entries),
        saved_seconds=_sum(entry.saved_seconds for entry in entries),
        used_seconds=_sum(entry.uses * (entry.milliseconds / 1e3) for entry in entries),
    )


def _sum(seconds: Iterable[float]) -> float:
    """A number even of times that no clock has measured."""
    total = sum(seconds)
    return total if math.isfinite(total) else sys.float_info.max


def by_worth(entries: Sequence[Entry]) -> list[Entry]:
    """Those that save most first, then those with the largest gain, then those that take most time."""
    return sorted(
        entries, key=lambda e: (-e.saved_seconds, -(e.gain or 0.0), -e.uses * e.milliseconds, e.name)
    )


def report(document: Document, now: float, everything: bool = False) -> str:
    """The whole file; `now` in seconds since 1970, for ages."""
    lines: list[str] = []
    for number, section in enumerate(document.sections):
        lines += (
            ["", *_section(number, section, now, everything)]
            if lines
            else _section(number, section, now, everything)
        )
    if not document.sections:
        lines.append("no machine's results")
    if len(document.sections) > 1:
        entries = [entry for section in document.sections for entry in section.entries]
        lines += ["", f"all machines: {_sums(totals(entries))}"]
    if document.unreadable:
        lines.append(f"{text.count(document.unreadable, 'section')} of a machine that cannot be told")
    lines += [f"refused: {text.printable(line)}" for line in document.problems]
    return "\n".join(lines)


def _section(number: int, section: Section, now: float, everything: bool) -> list[str]:
    lines = [f"machine {number}: {text.printable(str(section.machine))}"]
    lines.append(f"features: {text.printable(section.machine.features)}")
    most = None if everything else MOST_ROWS
    entries = by_worth(section.entries)
    lines.append(f"entries: {_sums(totals(entries))}")
    rows = [_row(entry, now) for entry in entries[:most]]
    lines += _indented(text.table(_HEADER, rows, _LEFT) if rows else [])
    lines += _more(len(entries), most)

    waiting = sorted((s for s in section.seen if not s.measured), key=lambda seen: -seen.uses)
    if waiting:
        lines.append(f"seen but not measured: {text.count(len(waiting), 'problem')}")
        rows = [(text.printable(seen.name), str(seen.uses)) for seen in waiting[:most]]
        lines += _indented(text.table(("problem", "uses"), rows, _LEFT))
        lines += _more(len(waiting), most)
    lines += _nodes(section, now, most)
    lines += _forms(section, now, most)
    lines += _denied(section, now, most)
    if section.spent is not None:
        day = text.day(section.spent.day)
        lines.append(f"spent measuring: {text.seconds(section.spent.ms / 1e3)} on {day} (UTC)")
    return lines


def _sums(sums: Totals) -> str:
    said = text.count(sums.entries, "problem")
    if sums.entries == 0:
        return said
    said += f", {sums.changed} on another kernel than the default"
    if sums.changed:
        said += f" ({sums.mean_gain:.2f}x as fast, geometric mean)"
    if sums.uses:
        said += f"; {text.count(sums.uses, 'use')} took {text.seconds(sums.used_seconds)} and "
        said += f"saved {text.seconds(sums.saved_seconds)}"
    return said


def _row(entry: Entry, now: float) -> tuple[str, ...]:
    return (
        text.printable(entry.name),
        text.printable(entry.kernel),
        text.milliseconds(entry.milliseconds),
        text.milliseconds(entry.default_milliseconds),
        f"{entry.gain:.2f}x" if entry.gain is not None else "-",
        f"{entry.gflops:.4g}" if entry.gflops is not None else "-",
        str(entry.uses),
        text.seconds(entry.saved_seconds) if entry.saved_seconds else "-",
        text.age(now - entry.measured_at),
        ", ".join(entry.flags),
    )


def _nodes(section: Section, now: float, most: int | None) -> list[str]:
    if not section.nodes:
        return []
    nodes = sorted(section.nodes, key=lambda node: -node.uses * node.ours_ms)
    header = ("node", "ms", "stock ms", "uses", "age", "runs on")
    rows = [
        (
            text.printable(f"{node.op} {node.name}"),
            text.milliseconds(node.ours_ms),
            text.milliseconds(node.stock_ms),
            str(node.uses),
            text.age(now - node.measured_at),
            "the stock provider" if node.stock else "this provider",
        )
        for node in nodes[:most]
    ]
    lines = [f"nodes: {len(nodes)}", *_indented(text.table(header, rows, {*_LEFT, "runs on"}))]
    return lines + _more(len(nodes), most)


def _forms(section: Section, now: float, most: int | None) -> list[str]:
    if not section.forms:
        return []
    forms = sorted(section.forms, key=lambda form: (-(form.gain or 0.0), form.group, form.shape))
    header = ("group", "shape", "form", "ms", "usual form", "its ms", "gain", "age")
    rows = [
        (
            text.printable(form.group),
            text.printable(form.shape),
            text.printable(form.form),
            text.milliseconds(form.form_ms),
            text.printable(form.usual_form),
            text.milliseconds(form.usual_ms),
            f"{form.gain:.2f}x" if form.gain is not None else "-",
            text.age(now - form.measured_at),
        )
        for form in forms[:most]
    ]
    lines = [f"forms of groups: {text.count(len(forms), 'shape')}"]
    lines += _indented(text.table(header, rows, {"group", "shape", "form", "usual form"}))
    return lines + _more(len(forms), most)


def _denied(section: Section, now: float, most: int | None) -> list[str]:
    if not section.denied:
        return []
    header = ("kernel", "deaths", "until", "reason")
    rows = []
    for denied in section.denied[:most]:
        over = " (over)" if 0 < denied.until < now else ""
        until = "for good" if denied.until == 0 else text.moment(denied.until) + over
        rows.append(
            (
                text.printable(f"{denied.library}:{denied.kernel}"),
                str(denied.deaths),
                until,
                text.printable(denied.reason),
            )
        )
    lines = [f"denied: {text.count(len(section.denied), 'kernel')}"]
    lines += _indented(text.table(header, rows, {*_LEFT, "until"}))
    return lines + _more(len(section.denied), most)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _more(number: int, most: int | None) -> list[str]:
    return [f"  and {number - most} more (--all)"] if most is not None and number > most else []


def as_json(document: Document, now: float) -> dict[str, Any]:
    """All of it, ready for JSON: the fields of the file, and what follows from them."""
    return {
        "machines": [
            {
                "fingerprint": vars(section.machine),
                "totals": vars(totals(section.entries)),
                "entries": [
                    {
                        "problem": entry.name,
                        **entry.fields,
                        "uses": entry.uses,
                        "gain": entry.gain,
                        "gflops": entry.gflops,
                        "saved_seconds": entry.saved_seconds,
                        "age_seconds": max(0.0, now - entry.measured_at),
                        "flags": entry.flags,
                    }
                    for entry in by_worth(section.entries)
                ],
                "seen": [
                    {"problem": seen.name, **seen.fields, "measured": seen.measured} for seen in section.seen
                ],
                "nodes": [vars(node) for node in section.nodes],
                "forms": [vars(form) for form in section.forms],
                "denied": [vars(denied) for denied in section.denied],
                "spent": None if section.spent is None else vars(section.spent),
            }
            for section in document.sections
        ],
        "unreadable_sections": document.unreadable,
        "problems": list(document.problems),
    }


def write_csv(document: Document, file: TextIO) -> None:
    """One line for each entry, with COLUMNS; nothing where a value is not known."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, section in enumerate(document.sections):
        for entry in by_worth(section.entries):
            writer.writerow(
                (
                    *(number, section.machine.device, entry.name, entry.m, entry.n, entry.k, entry.batch),
                    *(entry.dtype, entry.kernel, entry.milliseconds or "", entry.default_kernel),
                    *(entry.default_milliseconds or "", _known(entry.gain), _known(entry.gflops)),
                    *(entry.stock_milliseconds or "", int(entry.stock_wins), entry.uses),
                    *(entry.saved_seconds, entry.error, entry.tried, int(entry.cold)),
                    *(entry.m_low or "", entry.m_high or "", entry.confirmations, entry.measured_at),
                    entry.identity,
                )
            )


def _known(value: float | None) -> float | str:
    return "" if value is None else value
