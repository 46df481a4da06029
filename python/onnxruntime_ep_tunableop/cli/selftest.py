"""`tunableop selftest`: is every kernel of this machine right?"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import _selftest
from .._selftest import Outcome
from .command import Command, UsageError

_MOST_FAILURES = 20  # of a row, in print; the JSON file has all


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="WHICH", default="auto", help="auto, cpu, cuda, cuda:1, hip ...")
    parser.add_argument("--quick", action="store_true", help="fewer problems, in some ten seconds")
    parser.add_argument("--seconds", metavar="S", type=float, help="start nothing new after (default: 60)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the operands (default: 0)")
    parser.add_argument("--json", metavar="FILE", help="write everything found to FILE")


def _run(given: argparse.Namespace) -> int:
    if given.json is not None and not Path(given.json).absolute().parent.is_dir():
        raise UsageError(f"--json: there is no folder for '{given.json}'")
    seconds = given.seconds if given.seconds is not None else (15.0 if given.quick else 60.0)
    with _shown() as progress:
        outcome = _selftest.run(
            given.device, quick=given.quick, seed=given.seed, seconds=seconds, progress=progress
        )
    print(text(outcome))
    if given.json is not None:
        Path(given.json).write_text(json.dumps(document(outcome), indent=1) + "\n", encoding="utf-8")
    return 0 if outcome.right else 1


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """One line on a terminal, overwritten; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    try:
        yield lambda line: print(f"\r\033[K{line[:110]}", end="", file=sys.stderr, flush=True)
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def text(outcome: Outcome) -> str:
    """The report, to read and to paste."""
    lines = ["tunableop selftest", *(f"{key:>12}: {value}" for key, value in facts(outcome).items()), ""]
    header = ("library", "type", "problems", "kernels", "refused", "inexact", "left out", "error", "failures")
    rows: list[Sequence[str]] = [
        (
            row.library,
            row.kind,
            str(row.cases),
            str(row.kernels),
            str(row.refused),
            str(row.inexact),
            str(row.left_out),
            f"{row.error:.3f}",
            str(len(row.failures)),
        )
        for row in sorted(outcome.rows, key=lambda row: (row.library[0] == "(", row.library, row.kind))
    ]
    lines += _table([header, *rows])
    lines.append(
        "(error: the largest |got - exact| / tolerance, above 1 is wrong; refused: by the library;\n"
        " inexact: found by searching, and refused by every election)"
    )
    for row in outcome.rows:
        for failure in row.failures[:_MOST_FAILURES]:
            lines.append(f"FAILED {row.library} {row.kind}: {failure}")
        if len(row.failures) > _MOST_FAILURES:
            lines.append(f"FAILED {row.library} {row.kind}: and {len(row.failures) - _MOST_FAILURES} more")
    lines += [f"note: {note}" for note in outcome.notes]
    verdict = "passed" if outcome.right else "FAILED"
    lines.append(f"{verdict} in {outcome.seconds:.0f} s")
    return "\n".join(lines)


def facts(outcome: Outcome) -> dict[str, str]:
    """The machine and the device, by name."""
    device = outcome.device
    found = {"device": f"{device.id}: {device.name}, {device.arch}"}
    if device.memory_bytes:
        found["memory"] = f"{device.memory_bytes / 2**30:.0f} GiB"
    found |= device.versions | device.libraries
    found |= {f"no {name}": reason for name, reason in device.missing.items()}
    return outcome.machine | found


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def document(outcome: Outcome) -> dict[str, Any]:
    """All of it, for a file."""
    return {
        "tool": "tunableop selftest",
        "machine": facts(outcome),
        "seed": outcome.seed,
        "seconds": outcome.seconds,
        "passed": outcome.right,
        "rows": [vars(row) for row in outcome.rows],
        "notes": outcome.notes,
    }


COMMAND = Command(
    name="selftest",
    help="run every kernel of a device, and compare with a reference",
    description="Runs the kernels of every library of a device on many problems, alone and in sessions, and "
    "compares each answer with a reference in double precision. Prints what the machine is and what was "
    "found, to be kept or sent to somebody. Exit code 1: something was wrong.",
    add_arguments=_add_arguments,
    run=_run,
)
