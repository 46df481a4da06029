"""Heat map: m against n, coloured by time, GFLOP/s or gain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import cells, style
from .table import Panel

if TYPE_CHECKING:
    from matplotlib.colors import Normalize

_TITLES = {
    "ms": "Time of the chosen kernel by size: lower is better",
    "gflops": "Speed of the chosen kernel by size: higher is better",
    "gain": "Gain over the default kernel by size: 1 is none",
}
_BARS = {
    "ms": "time of a call (ms)",
    "us": "time of a call (microseconds)",
    "gflops": "GFLOP/s",
    "gain": "time on the default kernel / time on the chosen one",
}
_MAPS = {"ms": "viridis", "gflops": "viridis", "gain": "YlGnBu"}
_SHORT_MS = 0.01  # times below are written in microseconds, and then all of the picture


def draw(panels: Sequence[Panel], what: str, machine: str, out: Path) -> None:
    """Writes the picture. `what`: one of VALUES. ValueError: nothing was measured."""
    drawn = cells.choose(panels)
    values = [v for panel in drawn for cell in panel.cells if (v := cell.value(what)) is not None]
    if not values:
        raise ValueError(f"there is no {what} to draw: nothing was measured")
    factor, unit = (1e3, "us") if what == "ms" and min(values) < _SHORT_MS else (1.0, what)
    with style.canvas(*cells.size_of(drawn, 0.0)) as figure:
        import matplotlib
        from matplotlib.cm import ScalarMappable
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Rectangle

        colours = ScalarMappable(
            _scale(what, [value * factor for value in values]), matplotlib.colormaps[_MAPS[what]]
        )
        grid = cells.Grid(figure, drawn)
        for axes, panel in zip(grid.axes, drawn, strict=True):
            boxes = grid.boxes(panel)
            known = [
                (cell, value * factor) for cell in panel.cells if (value := cell.value(what)) is not None
            ]
            patches = [
                Rectangle(boxes[c.entry.m, c.entry.n][:2], *boxes[c.entry.m, c.entry.n][2:]) for c, _ in known
            ]
            shades: list[Any] = list(colours.to_rgba(np.array([value for _, value in known])))
            axes.add_collection(
                PatchCollection(patches, facecolors=shades, edgecolors="white", linewidths=0.4)
            )
            if not cells.labels_fit(panel):
                continue
            for (cell, value), shade in zip(known, shades, strict=True):
                axes.text(
                    cell.entry.n,
                    cell.entry.m,
                    label(what, value),
                    ha="center",
                    va="center",
                    fontsize=6.5,
                    color="black" if _brightness(shade) > 0.45 else "white",
                )
        bar = figure.colorbar(colours, ax=grid.axes, label=_BARS[unit], fraction=0.05, pad=0.02)
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        bar.ax.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
        figure.suptitle(f"{_TITLES[what]}\n{machine}", fontsize=11)
        cells.note(figure, cells.remarks(drawn, len(panels)))
        style.save(figure, out)


def label(what: str, value: float) -> str:
    """What stands in a cell: three digits that count, without an exponent."""
    if what == "gain":
        return f"{value:.2f}"
    digits = 3
    rounded = float(f"{value:.{digits}g}")
    if rounded >= 100:
        return f"{rounded:.0f}"
    text = f"{rounded:.{digits}g}"
    return text if "e" not in text else f"{rounded:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _scale(what: str, values: Sequence[float]) -> Normalize:
    from matplotlib.colors import LogNorm, Normalize

    low, high = min(values), max(values)
    if what == "gain":
        return Normalize(min(1.0, low), max(1.1, high))
    if what == "ms" and high >= 10 * low:
        return LogNorm(low, high)
    return Normalize(0.0, high)


def _brightness(colour: Sequence[float]) -> float:
    red, green, blue = colour[:3]
    return 0.299 * red + 0.587 * green + 0.114 * blue
