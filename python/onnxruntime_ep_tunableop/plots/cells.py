"""Panels of cells over m and n, each cell where its sizes are on the axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .style import GREY, NOTHING
from .table import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 12
COLUMNS = 3
_DECADE = 10  # sizes this far apart want a logarithmic axis
_MOST_TICKS = 16
_WIDEST = math.sqrt(2)  # of a cell's size: neighbours that are powers of two touch


def is_wide(sizes: Sequence[int]) -> bool:
    """They span a decade."""
    return max(sizes) >= _DECADE * min(sizes)


def edges(sizes: Sequence[int], log: bool) -> dict[int, tuple[float, float]]:
    """Where the cell of each size begins and ends: half way to its neighbours, at most so far.

    With a logarithmic axis at most a factor of the root of 2, otherwise half the most usual distance.
    """
    ordered = sorted(set(sizes))
    gaps = sorted(b - a for a, b in itertools.pairwise(ordered))
    reach = gaps[len(gaps) // 2] / 2 if gaps else 0.5
    found = {}
    for at, size in enumerate(ordered):
        if log:
            low, high = size / _WIDEST, size * _WIDEST
            if at > 0:
                low = max(low, math.sqrt(size * ordered[at - 1]))
            if at + 1 < len(ordered):
                high = min(high, math.sqrt(size * ordered[at + 1]))
        else:
            low, high = size - reach, size + reach
            if at > 0:
                low = max(low, (size + ordered[at - 1]) / 2)
            if at + 1 < len(ordered):
                high = min(high, (size + ordered[at + 1]) / 2)
        found[size] = (low, high)
    return found


def ticks(sizes: Sequence[int], log: bool) -> list[int]:
    """The sizes that an axis names: as many as stand clear of each other."""
    ordered = sorted(set(sizes))

    def place(size: int) -> float:
        return math.log(size) if log else float(size)

    span = place(ordered[-1]) - place(ordered[0])
    kept: list[int] = []
    for size in ordered:
        if not kept or place(size) - place(kept[-1]) >= span / _MOST_TICKS:
            kept.append(size)
    return kept


class Grid:
    """The axes of panels: the same scales on all of them, and the edges of each one's cells."""

    def __init__(self, figure: Figure, panels: Sequence[Panel]) -> None:
        self.panels = panels
        columns = min(COLUMNS, len(panels))
        rows = math.ceil(len(panels) / columns)
        ms = [cell.entry.m for panel in panels for cell in panel.cells]
        ns = [cell.entry.n for panel in panels for cell in panel.cells]
        self.log_m, self.log_n = is_wide(ms), is_wide(ns)
        places = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
        self.axes: list[Axes] = list(places[: len(panels)])
        for unused in places[len(panels) :]:
            unused.set_visible(False)
        for at, (axes, panel) in enumerate(zip(self.axes, panels, strict=True)):
            axes.set_title(panel.title)
            axes.set_facecolor(NOTHING)
            axes.set(xscale="log" if self.log_n else "linear", yscale="log" if self.log_m else "linear")
            below = at + columns >= len(panels)
            if below:
                axes.set_xlabel("n: columns of B and C")
                axes.tick_params(labelbottom=True)
            if at % columns == 0:
                axes.set_ylabel("m: rows of A and C")
        self._limits(ms, ns)

    def _limits(self, ms: Sequence[int], ns: Sequence[int]) -> None:
        from matplotlib.ticker import FixedLocator, NullLocator

        axes = self.axes[0]  # the others share it
        for axis, sizes, log in ((axes.xaxis, ns, self.log_n), (axes.yaxis, ms, self.log_m)):
            named = ticks(sizes, log)
            axis.set_major_locator(FixedLocator(named))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        low_n, high_n = edges(ns, self.log_n)[min(ns)][0], edges(ns, self.log_n)[max(ns)][1]
        low_m, high_m = edges(ms, self.log_m)[min(ms)][0], edges(ms, self.log_m)[max(ms)][1]
        axes.set_xlim(low_n, high_n)
        axes.set_ylim(low_m, high_m)
        crowded = len(ticks(ns, self.log_n)) > 6
        for each in self.axes:
            each.tick_params(axis="x", rotation=45 if crowded else 0)

    def boxes(self, panel: Panel) -> dict[tuple[int, int], tuple[float, float, float, float]]:
        """By (m, n): left, bottom, width, height."""
        across = edges([cell.entry.n for cell in panel.cells], self.log_n)
        up = edges([cell.entry.m for cell in panel.cells], self.log_m)
        found = {}
        for cell in panel.cells:
            (left, right), (low, high) = across[cell.entry.n], up[cell.entry.m]
            found[cell.entry.m, cell.entry.n] = (left, low, right - left, high - low)
        return found


def choose(panels: Sequence[Panel]) -> list[Panel]:
    """At most MOST_PANELS, those with most cells, in their order."""
    if len(panels) <= MOST_PANELS:
        return list(panels)
    kept = sorted(range(len(panels)), key=lambda at: (-len(panels[at].cells), at))[:MOST_PANELS]
    return [panels[at] for at in sorted(kept)]


def size_of(panels: Sequence[Panel], legend: float) -> tuple[float, float]:
    """Width and height in inches, with so much height for a legend."""
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    across = max(len({cell.entry.n for cell in panel.cells}) for panel in panels)
    up = max(len({cell.entry.m for cell in panel.cells}) for panel in panels)
    width, height = min(max(across * 0.55, 3.2), 6.0), min(max(up * 0.36, 2.2), 5.0)
    return max(columns * width + 1.6, 6.5), rows * (height + 0.5) + 1.0 + legend


def labels_fit(panel: Panel) -> bool:
    """There are few enough cells for their values to be written in them."""
    across = len({cell.entry.n for cell in panel.cells})
    up = len({cell.entry.m for cell in panel.cells})
    return across <= 11 and up <= 14


def note(figure: Figure, lines: Sequence[str]) -> None:
    """Small print below everything."""
    if lines:
        figure.supxlabel("\n".join(lines), fontsize=8, color=GREY, x=0.01, ha="left")


def _has_holes(panel: Panel) -> bool:
    ms, ns = {cell.entry.m for cell in panel.cells}, {cell.entry.n for cell in panel.cells}
    return len(panel.cells) < len(ms) * len(ns)


def remarks(panels: Sequence[Panel], all_panels: int) -> list[str]:
    """What a reader has to know of what is not drawn."""
    lines = ["Grey: no such size in the file."] if any(map(_has_holes, panels)) else []
    if hidden := sum(cell.hidden > 0 for panel in panels for cell in panel.cells):
        cells = "1 cell stands" if hidden == 1 else f"{hidden} cells stand"
        lines.append(f"{cells} for several problems of the same sizes; the one used most is shown.")
    if all_panels > len(panels):
        lines.append(f"The {len(panels)} panels with most cells, of {all_panels}.")
    return lines
