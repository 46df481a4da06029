"""Progress of tuning on stderr: a bar on a terminal when rich is installed, lines otherwise."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ..tuning import Progress, TuneProgress


def _line(step: TuneProgress) -> None:
    print(f"[{step.tuned}/{step.tuned + step.pending}] {step.line}", file=sys.stderr, flush=True)


def _nothing(step: TuneProgress) -> None:
    """Quiet."""


@contextlib.contextmanager
def shown(quiet: bool) -> Iterator[Progress]:
    """What to call after each problem."""
    if quiet:
        yield _nothing
        return
    if not sys.stderr.isatty():
        yield _line
        return
    try:
        from rich import progress as bars
        from rich.console import Console
    except ImportError:
        yield _line
        return
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring", total=None)

        def step(now: TuneProgress) -> None:
            bar.console.print(now.line, markup=False, highlight=False)
            bar.update(task, completed=now.tuned, total=now.tuned + now.pending)

        yield step
