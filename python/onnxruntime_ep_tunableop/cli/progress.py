"""Progress on stderr: a bar on a terminal when rich is installed; lines, or nothing, otherwise."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..tuning import Progress, TuneProgress


def _line(step: TuneProgress) -> None:
    print(f"[{step.tuned}/{step.tuned + step.pending}] {step.line}", file=sys.stderr, flush=True)


def _nothing(step: TuneProgress) -> None:
    """Quiet."""


#: What goes on, how many steps of it are done, of how many.
Steps = Callable[[str, int, int], None]


def _no_steps(what: str, done: int, total: int) -> None:
    """Quiet."""


@contextlib.contextmanager
def steps(quiet: bool) -> Iterator[Steps]:
    """What to call with each step: a bar on a terminal (a line without rich), nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield _no_steps
        return
    made = _bar()
    if made is None:
        with _one_line() as step:
            yield step
        return
    with made as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(
            task, description=what.replace("[", r"\["), completed=done, total=total
        )


def _bar() -> Any:
    """A bar of rich on stderr; None where rich is not installed."""
    try:
        from rich import progress as bars
        from rich.console import Console
    except ImportError:
        return None
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
    )
    return bars.Progress(*columns, console=Console(stderr=True), transient=True)


@contextlib.contextmanager
def _one_line() -> Iterator[Steps]:
    """A line that is overwritten."""
    try:
        yield lambda what, done, total: print(
            f"\r\033[K{what[:90]} ({done}/{total})", end="", file=sys.stderr, flush=True
        )
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def shown(quiet: bool) -> Iterator[Progress]:
    """What to call after each problem."""
    if quiet:
        yield _nothing
        return
    if not sys.stderr.isatty():
        yield _line
        return
    made = _bar()
    if made is None:
        yield _line
        return
    with made as bar:
        task = bar.add_task("measuring", total=None)

        def step(now: TuneProgress) -> None:
            bar.console.print(now.line, markup=False, highlight=False)
            bar.update(task, completed=now.tuned, total=now.tuned + now.pending)

        yield step
