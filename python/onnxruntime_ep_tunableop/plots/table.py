"""What a picture of many problems shows: one cell for each m and n, a panel for each k and type."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from ..cache_tools.document import Entry, Section

#: What a heat map may show of a cell.
VALUES = ("ms", "gflops", "gain")


@dataclass(frozen=True)
class Cell:
    """One m and n of a panel: the problem that is shown for it."""

    entry: Entry
    hidden: int = 0  #: further problems of this m and n, used less

    def value(self, what: str) -> float | None:
        """One of VALUES; None: not measured."""
        if what == "ms":
            return self.entry.milliseconds or None
        return self.entry.gflops if what == "gflops" else self.entry.gain


@dataclass(frozen=True)
class Panel:
    """One k and type. Cells by m, then n."""

    k: int
    dtype: str
    cells: tuple[Cell, ...]

    @property
    def title(self) -> str:
        """For a reader."""
        return f"k = {self.k}, {self.dtype}"


def panels(
    section: Section, k: int | None = None, dtype: str | None = None, problem: str = ""
) -> list[Panel]:
    """By type and k; only those of this k, this type, and problems whose name contains `problem`.

    Of several problems with the same sizes one for m itself comes before a bucket, then what is used
    most, then what was measured last. Empty products are left out.
    """
    groups: dict[tuple[str, int], dict[tuple[int, int], list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in section.entries:
        wanted = k in (None, entry.k) and dtype in (None, entry.dtype) and problem in entry.name
        if wanted and min(entry.m, entry.n) > 0:
            groups[entry.dtype, entry.k][entry.m, entry.n].append(entry)
    return [
        Panel(size, kind, tuple(_cell(group[place]) for place in sorted(group)))
        for (kind, size), group in sorted(groups.items())
    ]


def _cell(entries: Sequence[Entry]) -> Cell:
    shown = max(entries, key=lambda entry: (not entry.is_bucket, entry.uses, entry.measured_at, entry.key))
    return Cell(shown, len(entries) - 1)


HEAT_MAP_COLUMNS = ("dtype", "k", "m", "n", "value", "unit", "kernel", "problem", "hidden")
LANDSCAPE_COLUMNS = ("dtype", "k", "m", "n", "kernel", "is_default", "stock_wins", "problem", "hidden")


def heat_map_rows(shown: Sequence[Panel], what: str) -> list[tuple[Any, ...]]:
    """What a heat map draws, a row for each coloured cell."""
    return [
        (
            *(panel.dtype, panel.k, cell.entry.m, cell.entry.n, cell.value(what), what),
            *(cell.entry.kernel, cell.entry.name, cell.hidden),
        )
        for panel in shown
        for cell in panel.cells
        if cell.value(what) is not None
    ]


def landscape_rows(shown: Sequence[Panel]) -> list[tuple[Any, ...]]:
    """What a landscape draws, a row for each cell."""
    return [
        (
            *(panel.dtype, panel.k, cell.entry.m, cell.entry.n, cell.entry.kernel),
            *(int(is_default(cell.entry)), int(cell.entry.stock_wins), cell.entry.name, cell.hidden),
        )
        for panel in shown
        for cell in panel.cells
    ]


def is_default(entry: Entry) -> bool:
    """The default kernel was kept."""
    return entry.kernel == entry.default_kernel


def write(columns: Sequence[str], rows: Sequence[Sequence[Any]], file: TextIO) -> None:
    """CSV."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
