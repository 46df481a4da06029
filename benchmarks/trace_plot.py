"""Draws one election from a trace: every sample, the medians, the bar to clear, the winner.

    python -m benchmarks.trace_plot TRACE.csv OUT.svg|OUT.png [--problem TEXT] [--election N]
                                    [--min-gain 0.03] [--winner LIBRARY:KERNEL] [--list]

`tunableop cache plot --kind trace` does the same, and ships with the package.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from onnxruntime_ep_tunableop.plots.election import COLUMNS, Election, draw, elections, read_trace, said

__all__ = ["COLUMNS", "Election", "draw", "elections", "main", "read_trace"]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Draws one election from a trace.")
    parser.add_argument("trace", type=Path, help="the CSV file")
    parser.add_argument("out", type=Path, nargs="?", help="the picture, .svg or .png")
    parser.add_argument("--problem", default="", help="one whose name contains this (default: any)")
    parser.add_argument("--election", type=int, default=-1, help="of those, from 0; default: the last")
    parser.add_argument("--min-gain", type=float, default=0.03, help="as the option (0.03)")
    parser.add_argument("--winner", help="library:kernel, as explain says; default: guessed from medians")
    parser.add_argument("--list", action="store_true", help="print the elections instead")
    args = parser.parse_args(arguments)
    try:
        found = [one for one in elections(read_trace(args.trace)) if args.problem in one.problem]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if args.list:
        for number, one in enumerate(found):
            print(f"{number}: {said(one)}")
        return 0
    if args.out is None or args.out.suffix not in (".svg", ".png"):
        parser.error("out: expected a file that ends in .svg or .png")
    if not -len(found) <= args.election < len(found):
        parser.error(f"there are {len(found)} elections of problems that contain '{args.problem}'")
    chosen = found[args.election]
    if args.winner is not None and args.winner not in [lane.kernel for lane in chosen.lanes]:
        kernels = ", ".join(lane.kernel for lane in chosen.lanes)
        parser.error(f"--winner: '{args.winner}' did not run; there are {kernels}")
    try:
        draw(chosen, args.out, args.min_gain, args.winner)
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"wrote {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
