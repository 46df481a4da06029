"""Single products as text for a terminal, as Markdown, and as CSV: a row for each shape and kernel."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Mapping, Sequence

from .figures import geomean
from .gemm import GemmRow
from .report import seconds, table, three

_MOST_CANDIDATES = 5  # of an election, in print; CSV and JSON have all


def gemm_text(rows: Sequence[GemmRow], machine: Mapping[str, str], *, markdown: bool = False) -> str:
    """All rows, the sessions of each shape first; of long elections the fastest kernels and the default."""
    lines = [", ".join(f"{key} {value}" for key, value in machine.items()), ""]
    header = (
        "shape",
        "type",
        "kernel",
        "role",
        "timed",
        "median",
        "spread",
        "GFLOP/s",
        "GB/s",
        "gain",
        "error",
    )
    lines += table(header, [_cells(row) for row in shown(rows)], markdown=markdown)
    hidden = len(rows) - len(shown(rows))
    words = (
        "gain: over the default kernel, timed in the same way; "
        "error: largest difference / tolerance, wrong above 1"
    )
    if hidden:
        words += f"; {hidden} slower kernels are in --csv and --json"
    lines += ["", f"({words})", *summary(rows)]
    return "\n".join(lines)


def shown(rows: Sequence[GemmRow]) -> list[GemmRow]:
    """Sessions, winners, defaults, spectators, and the fastest candidates of each election."""
    found: list[GemmRow] = []
    for _, group in itertools.groupby(rows, lambda row: (row.shape.name, row.type)):
        candidates = 0
        for row in group:
            if row.role == "candidate":
                candidates += 1
                if candidates > _MOST_CANDIDATES:
                    continue
            found.append(row)
    return found


def summary(rows: Sequence[GemmRow]) -> list[str]:
    """How many times as fast as stock the tuned sessions are, over all shapes."""
    lines = []
    for kind in dict.fromkeys(row.type for row in rows):
        tuned = [row for row in rows if row.type == kind and row.role == "tuned" and row.speedup is not None]
        ratios = {row.shape.name: row.speedup.value for row in tuned if row.speedup is not None}
        if ratios:
            worst = min(ratios, key=lambda name: ratios[name])
            best = max(ratios, key=lambda name: ratios[name])
            lines.append(
                f"{kind}: tuned is {geomean(list(ratios.values())):.3f} times as fast as stock "
                f"(geometric mean of {len(ratios)}), from {ratios[worst]:.3f} ({worst}) to "
                f"{ratios[best]:.3f} ({best})"
            )
    return lines


def _cells(row: GemmRow) -> Sequence[str]:
    if row.gain_interval is not None:
        gain = str(row.gain_interval)
    else:
        gain = "-" if row.gain is None else f"{row.gain:.2f}"
    return (
        f"{row.shape.name} {row.shape.size}" if row.shape.name != row.shape.size else row.shape.size,
        row.type,
        row.kernel,
        "default, winner" if row.role == "winner" and row.is_default else row.role,
        row.timed,
        seconds(row.median),
        seconds(row.spread),
        three(row.gflops),
        three(row.gigabytes_per_second),
        gain,
        "-" if row.error is None else f"{row.error:.3f}",
    )


CSV_COLUMNS = (
    *("shape", "batch", "m", "n", "k", "b_const", "type", "threads", "kernel", "role", "is_default", "timed"),
    *("samples", "median_s", "spread_s", "gflops", "gbytes_per_s", "gain", "gain_low", "gain_high"),
    *("speedup", "speedup_low", "speedup_high", "error"),
)


def csv_rows(rows: Sequence[GemmRow]) -> str:
    """All rows, CSV_COLUMNS."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in rows:
        shape, gain, speed = row.shape, row.gain_interval, row.speedup
        writer.writerow(
            [
                *(shape.name, shape.batch, shape.m, shape.n, shape.k, int(shape.constant_b), row.type),
                *(_open(row.threads), row.kernel, row.role, int(row.is_default), row.timed, row.samples),
                *(row.median, row.spread, row.gflops, row.gigabytes_per_second, _open(row.gain)),
                *((gain.low, gain.high) if gain else ("", "")),
                *((speed.value, speed.low, speed.high) if speed else ("", "", "")),
                _open(row.error),
            ]
        )
    return out.getvalue()


def _open(value: float | int | None) -> object:
    return "" if value is None else value
