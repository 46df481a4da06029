"""`tunableop cache plot`: pictures of a file of tuning results, or of a trace."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..cache_tools import document
from ..cache_tools.text import printable
from ..plots import election, heatmap, landscape, style, table
from .command import UsageError

KINDS = ("heatmap", "landscape", "trace")
_FORMATS = (*style.FORMATS, ".csv")


def add_to(commands: Any) -> None:
    """Adds the command."""
    one: argparse.ArgumentParser = commands.add_parser(
        "plot",
        help="draw a file: a heat map, which kernel wins where, or one election",
        description="Draws a file of tuning results, m against n: a heat map of times, speeds or gains, or "
        "the landscape of kernels. With --kind trace FILE is a trace (option trace of a session), and one "
        "election is drawn. OUT.csv gets what would be drawn. Pictures need matplotlib (the extra plot).",
    )
    one.add_argument("file", metavar="FILE")
    one.add_argument("-o", "--out", metavar="OUT", help="ends in .png, .svg or .csv")
    one.add_argument("--kind", choices=KINDS, default="heatmap", help="default: heatmap")
    one.add_argument("--value", choices=table.VALUES, default="ms", help="of a heat map (default: ms)")
    one.add_argument("--k", metavar="K", type=int, help="only this k")
    one.add_argument("--dtype", metavar="TYPE", help="only this type: fp32, fp16 ...")
    one.add_argument("--machine", metavar="N", type=int, default=0, help="as 'show' counts them (default: 0)")
    one.add_argument("--problem", metavar="TEXT", default="", help="only problems whose name contains TEXT")
    one.add_argument(
        "--election", metavar="N", type=int, default=-1, help="of a trace, from 0 (default: the last)"
    )
    one.add_argument("--min-gain", metavar="SHARE", type=float, default=0.03, help="of a trace (0.03)")
    one.add_argument("--list", action="store_true", help="print the elections of a trace, and draw nothing")
    one.add_argument("--winner", metavar="LIBRARY:KERNEL", help="of a trace that does not say it")
    one.set_defaults(run_cache=_run)


def _run(given: argparse.Namespace) -> int:
    if given.list:
        if given.kind != "trace":
            raise UsageError("plot: --list: expected --kind trace beside it")
        _list(given)
        return 0
    if given.out is None:
        raise UsageError("plot: expected -o OUT, found nothing")
    out = Path(given.out)
    if out.suffix not in _FORMATS:
        raise UsageError(f"plot: --out: expected a file that ends in .png, .svg or .csv, found '{given.out}'")
    if given.kind == "trace":
        _trace(given, out)
    else:
        _results(given, out)
    print(f"wrote {out}", file=sys.stderr)
    return 0


def _results(given: argparse.Namespace, out: Path) -> None:
    try:
        sections = document.read(given.file).sections
    except document.UnusableError as error:
        if Path(given.file).suffix == ".csv":
            raise UsageError(f"plot: {error} (a trace is drawn with --kind trace)") from error
        raise
    if not 0 <= given.machine < len(sections):
        there = f"0 to {len(sections) - 1}" if sections else "none: the file holds no machine's results"
        raise UsageError(f"plot: --machine: expected {there}, found {given.machine}")
    section = sections[given.machine]
    panels = table.panels(section, given.k, given.dtype, given.problem)
    if not panels:
        raise UsageError(f"plot: no entry is left: {_there(section)}")
    machine = printable(str(section.machine))
    if out.suffix == ".csv":
        if given.kind == "heatmap":
            _write(out, table.HEAT_MAP_COLUMNS, table.heat_map_rows(panels, given.value))
        else:
            _write(out, table.LANDSCAPE_COLUMNS, table.landscape_rows(panels))
    elif given.kind == "heatmap":
        heatmap.draw(panels, given.value, machine, out)
    else:
        landscape.draw(panels, machine, out)


def _there(section: document.Section) -> str:
    """What could have been asked for."""
    ks = sorted({entry.k for entry in section.entries})
    types = sorted({entry.dtype for entry in section.entries})
    if not ks:
        return "this machine has none"
    some = ", ".join(map(str, ks[:20])) + (" ..." if len(ks) > 20 else "")
    return f"there are k = {some} and the types {', '.join(types)}"


def _elections(given: argparse.Namespace) -> list[election.Election]:
    found = election.elections(election.read_trace(Path(given.file)))
    return [one for one in found if given.problem in one.problem]


def _list(given: argparse.Namespace) -> None:
    for number, one in enumerate(_elections(given)):
        print(f"{number}: {election.said(one)}")


def _trace(given: argparse.Namespace, out: Path) -> None:
    found = _elections(given)
    if not -len(found) <= given.election < len(found):
        raise UsageError(
            f"plot: --election: there are {len(found)} elections of problems that contain '{given.problem}', "
            f"found {given.election}"
        )
    chosen = found[given.election]
    kernels = [lane.kernel for lane in chosen.lanes]
    if given.winner is not None and given.winner not in kernels:
        raise UsageError(f"plot: --winner: expected one of {', '.join(kernels)}, found '{given.winner}'")
    if out.suffix == ".csv":
        _write(out, election.SAMPLE_COLUMNS, election.rows_of(chosen))
    else:
        election.draw(chosen, out, given.min_gain, given.winner)


def _write(out: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with out.open("w", newline="", encoding="utf-8") as file:
        table.write(columns, rows, file)
