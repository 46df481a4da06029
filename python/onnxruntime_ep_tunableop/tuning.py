"""Tuning before there is traffic: a whole model offline, or a session that is about to serve."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime as ort

from . import _control
from ._shapes import Feeds, Shapes, describe, make_feeds
from .errors import OptionError, TunableOpError
from .session import InferenceSession

if TYPE_CHECKING:
    import onnx

logger = logging.getLogger("tunableop")

#: Somebody else of this process measures: how long to wait for anything to change.
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class TuneProgress:
    """One problem was measured."""

    tuned: int  #: problems measured so far
    pending: int  #: problems still to measure, of those that were met so far
    seconds: float  #: wall clock spent measuring so far
    line: str  #: what came of the last one, for a person


@dataclass(frozen=True)
class TuneSummary:
    """What tuning did."""

    tuned: int  #: problems measured
    seconds: float  #: wall clock spent measuring
    denied: int  #: kernels that must not run any more: wrong answers, hangs, dead workers
    restarts: int = 0  #: workers that a kernel killed (isolate)
    #: One for each problem and each dead worker. What a session with tuning="online" measures in the runs
    #: of `warm` has none.
    lines: list[str] = field(default_factory=list)


Progress = Callable[[TuneProgress], None]


def tune(
    model: str | bytes | os.PathLike[str] | onnx.ModelProto,
    *,
    shapes: Shapes = None,
    dims: Mapping[str, int] | None = None,
    cache: str | os.PathLike[str] | None = None,
    isolate: bool = False,
    hang_seconds: float = 30.0,
    progress: Progress | None = None,
    **options: Any,
) -> TuneSummary:
    """Measures every MatMul and Gemm of a model and saves the results.

    Args:
        model: a path, the bytes of a model, or an `onnx.ModelProto`.
        shapes: `{input: dimensions}` or a list of such; an array in place of dimensions is fed as it is.
            None: what `cache` has seen in use (tuning="record"); if that is nothing, the dimensions that
            the model states, symbolic ones as 1.
        dims: values of symbolic dimensions, `{"batch": 8}`.
        cache: the file to save to, after each problem. What it knows already is not measured again.
        isolate: measure in a worker process: a kernel that crashes or hangs costs the worker its life,
            is denied in `cache`, and a new worker goes on.
        hang_seconds: a worker whose kernel has not come back for so long is killed (isolate).
        progress: called after each problem.
        options: options of `InferenceSession`, except `tuning`.

    Raises:
        OptionError: wrong options or shapes.
        OSError: `cache` cannot be written.
        TunableOpError: the model does not run, or the worker died for other reasons than a kernel's.
    """
    if cache is not None and not (folder := Path(cache).absolute().parent).is_dir():
        raise OptionError(f"cache: there is no folder '{folder}' for '{Path(cache).name}'")
    if "tuning" in options:
        raise OptionError("tune: there is no option 'tuning' here, for everything is measured")
    if isolate:
        from . import _isolate

        return _isolate.tune_isolated(
            model, shapes, dims, cache, hang_seconds=hang_seconds, progress=progress, options=options
        )
    return tune_here(model, shapes, dims, cache, progress=progress, options=options)


def warm(
    session: ort.InferenceSession, shapes: Shapes = None, *, progress: Progress | None = None
) -> TuneSummary:
    """Runs a session once for each set of shapes and measures what it met, before there is traffic.

    A session with tuning="cached", "record" or "off" runs, too, but measures nothing. `shapes` as for `tune`.
    """
    work = _Work(session, None, progress)
    _measure_all(work, make_feeds(session, shapes))
    return work.summary()


def warm_from_cache(session: ort.InferenceSession, *, progress: Progress | None = None) -> TuneSummary:
    """Measures what the session's cache has seen in use and has no choice for, before there is traffic.

    A session with tuning="cached", "record" or "off" measures nothing.
    """
    work = _Work(session, None, progress)
    if _control.stats(session).tuning in ("online", "background"):
        _measure_seen(work)
    return work.summary()


def tune_here(
    model: str | bytes | os.PathLike[str] | onnx.ModelProto,
    shapes: Shapes,
    dims: Mapping[str, int] | None,
    cache: str | os.PathLike[str] | None,
    *,
    progress: Progress | None,
    options: Mapping[str, Any],
    warn: bool = True,
) -> TuneSummary:
    """`tune` in this process."""
    session = InferenceSession(model, tuning="background", cache=cache, **options)
    work = _Work(session, cache, progress)
    if cache is not None and Path(cache).is_file():
        _measure_seen(work)
    if shapes is not None or dims:
        _measure_all(work, make_feeds(session, shapes, dims, warn=warn))
    elif not work.lines and not _seen_in_use(session):
        _measure_all(work, make_feeds(session, None, warn=warn))
    elif not work.lines and warn:
        logger.warning("nothing that %s has seen in use is left to measure; give shapes for more", cache)
    return work.summary()


class _Work:
    """What one call of `tune` or `warm` measures, and where that goes."""

    def __init__(
        self,
        session: ort.InferenceSession,
        cache: str | os.PathLike[str] | None,
        progress: Progress | None,
    ) -> None:
        self.session = session
        self.lines: list[str] = []
        self._cache = cache
        self._progress = progress
        self._started = _control.stats(session)
        self._denied = len(_part(session, "denied"))

    def took(self, line: str, pending: int) -> None:
        """One problem was measured."""
        self.lines.append(line)
        if self._cache is not None:
            _control.save_cache(self.session, self._cache)  # raises, where save_own_cache only logs
        if self._progress is not None:
            seconds = _control.stats(self.session).tuning_seconds - self._started.tuning_seconds
            self._progress(TuneProgress(len(self.lines), pending, seconds, line))

    def summary(self) -> TuneSummary:
        """Of everything so far."""
        now = _control.stats(self.session)
        return TuneSummary(
            tuned=now.tuned - self._started.tuned,
            seconds=now.tuning_seconds - self._started.tuning_seconds,
            denied=len(_part(self.session, "denied")) - self._denied,
            lines=self.lines,
        )


def _part(session: ort.InferenceSession, name: str) -> list[Any]:
    """A part of what the session knows of this machine."""
    sections = _control.get_tuning_results(session)["machines"]
    return [element for section in sections for element in section.get(name, [])]


def _seen_in_use(session: ort.InferenceSession) -> bool:
    """Whether the cache tells of problems in real use, measured or not: they come before invented ones."""
    return bool(_part(session, "seen"))


@contextmanager
def _collecting(session: ort.InferenceSession) -> Iterator[None]:
    """Problems wait from their first use on, and the session's own thread leaves them to us."""
    _control._ask(session, "collect", on=True)
    try:
        yield
    finally:
        _control._ask(session, "collect", on=False)


def _measure_seen(work: _Work) -> None:
    """Measures what the cache tells of real use and has no choice for."""
    with _collecting(work.session):
        while int(_control._ask(work.session, "tune_seen")["pending"]):
            if not measure_pending(work):
                return  # none of them can be measured: the notes say why


def _measure_all(work: _Work, sets: Iterable[Feeds]) -> None:
    """Runs each set of feeds and measures what it met, until a run meets nothing new."""
    with _collecting(work.session):
        for feeds in sets:
            while True:  # of a large model not everything may find room to wait at once
                _run(work.session, feeds)
                if not measure_pending(work):
                    break


def measure_pending(
    work: _Work,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Measures until nothing is pending; how many problems that were."""
    tuned = 0
    last_pending = -1
    changed = clock()
    while True:
        answer = _control._ask(work.session, "tune_pending", max_problems=1)
        pending = int(answer["pending"])
        if answer["tuned"]:
            tuned += int(answer["tuned"])
            work.took(str(answer["last"]), pending)
        if pending == 0:
            return tuned
        if answer["tuned"] or pending != last_pending:
            changed, last_pending = clock(), pending
        elif clock() - changed > PATIENCE_SECONDS:
            raise TunableOpError(
                f"{pending} problems are pending, but none was measured in {PATIENCE_SECONDS:g} seconds"
            )
        else:
            sleep(0.02)  # another session of this process is measuring


def _run(session: ort.InferenceSession, feeds: Feeds) -> None:
    try:
        session.run(None, feeds)
    except Exception as error:
        raise TunableOpError(f"the model does not run with {describe(feeds)}: {error}") from error
