"""A progress bar on a terminal, nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yields `items`, drawing a bar on stderr when stderr is a terminal and `rich` is installed."""
    if not sys.stderr.isatty():
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import track as rich_track
    except ImportError:
        yield from items
        return
    yield from rich_track(
        items, description=description, total=total, transient=True, console=Console(stderr=True)
    )
