"""Landscape: which kernel is chosen for which m and n."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import cells, style
from .table import Panel, is_default

if TYPE_CHECKING:
    from matplotlib.lines import Line2D


@dataclass(frozen=True)
class Look:
    """How a kernel is drawn, and what the legend says of it."""

    colour: str
    marker: str
    label: str


def looks(panels: Sequence[Panel]) -> tuple[dict[str, Look], Look | None]:
    """By kernel, those chosen most often first; and how the others look, if colours run out."""
    chosen = Counter(cell.entry.kernel for panel in panels for cell in panel.cells)
    total = chosen.total()
    ordered = sorted(chosen, key=lambda kernel: (-chosen[kernel], kernel))
    own = ordered[: len(style.COLOURS)]
    rest = ordered[len(style.COLOURS) :]
    found = {
        kernel: Look(colour, marker, f"{kernel} ({chosen[kernel]} of {total})")
        for kernel, colour, marker in zip(own, style.COLOURS, style.MARKERS, strict=False)
    }
    if not rest:
        return found, None
    times = sum(chosen[kernel] for kernel in rest)
    many = "1 other kernel" if len(rest) == 1 else f"{len(rest)} other kernels"
    return found, Look(style.REST_COLOUR, style.REST_MARKER, f"{many} ({times} of {total})")


def draw(panels: Sequence[Panel], machine: str, out: Path) -> None:
    """Writes the picture. ValueError: there is nothing to draw."""
    if not panels:
        raise ValueError("there is no kernel to draw")
    drawn = cells.choose(panels)
    found, rest = looks(drawn)
    legend = [*found.values(), *([rest] if rest else [])]
    with style.canvas(*cells.size_of(drawn, 0.2 * (len(legend) + 1) / 2 + 0.5)) as figure:
        from matplotlib.patches import Patch, Rectangle

        grid = cells.Grid(figure, drawn)
        for axes, panel in zip(grid.axes, drawn, strict=True):
            boxes = grid.boxes(panel)
            for cell in panel.cells:
                entry = cell.entry
                look = found.get(entry.kernel) or rest
                assert look is not None
                left, bottom, width, height = boxes[entry.m, entry.n]
                axes.add_patch(
                    Rectangle((left, bottom), width, height, facecolor=look.colour, edgecolor="white", lw=0.4)
                )
                if entry.stock_wins:
                    axes.add_patch(
                        Rectangle(
                            (left, bottom), width, height, fill=False, hatch="////", edgecolor="black", lw=0
                        )
                    )
                axes.plot(
                    [entry.n],
                    [entry.m],
                    look.marker,
                    markersize=5,
                    markeredgecolor="black",
                    markeredgewidth=0.8,
                    markerfacecolor="none" if is_default(entry) else "black",
                )
        handles: list[Line2D | Patch] = [_handle(look) for look in legend]
        handles.append(_mark("black", "filled mark: measured faster than the default kernel"))
        handles.append(_mark("none", "open mark: the default kernel stays"))
        if any(cell.entry.stock_wins for panel in drawn for cell in panel.cells):
            handles.append(
                Patch(
                    facecolor="white", edgecolor="black", hatch="////", label="the stock provider is faster"
                )
            )
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        figure.suptitle(f"Chosen kernel by size\n{machine}", fontsize=11)
        cells.note(figure, cells.remarks(drawn, len(panels)))
        style.save(figure, out)


def _handle(look: Look) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        linestyle="none",
        marker=look.marker,
        markersize=8,
        markerfacecolor=look.colour,
        markeredgecolor="black",
        markeredgewidth=0.8,
        label=look.label,
    )


def _mark(fill: str, text: str) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        linestyle="none",
        marker="o",
        markersize=5,
        markerfacecolor=fill,
        markeredgecolor="black",
        label=text,
    )
