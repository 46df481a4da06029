"""Tuning before there is traffic: a whole model offline, or a session that is about to serve."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
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
    pending: int  #: problems still to measure
    seconds: float  #: wall clock spent measuring so far
    line: str  #: what came of the last one, for a person


@dataclass(frozen=True)
class TuneSummary:
    """What tuning did."""

    tuned: int  #: problems measured
    seconds: float  #: wall clock spent measuring
    denied: int  #: kernels that lost their place: wrong answers, errors, dead workers
    restarts: int = 0  #: workers that a kernel killed (isolate)
    lines: list[str] = field(default_factory=list)  #: one for each problem and each dead worker


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
        TunableOpError: the model does not run, or the worker died for other reasons than a kernel's.
    """
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

    A session with tuning="cached" or "off" runs, too, but measures nothing. `shapes` as for `tune`.
    """
    started = _control.stats(session)
    lines = _measure_all(session, make_feeds(session, shapes), None, progress)
    return _summary(started, _control.stats(session), lines)


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
    started = _control.stats(session)
    known = cache is not None and Path(cache).is_file()
    lines: list[str] = []
    while known and int(_control._ask(session, "tune_seen")["pending"]):
        found = measure_pending(session, cache, progress)
        if not found:
            break  # none of them can be measured: the notes say why
        lines += found
    if shapes is not None or dims or not lines:
        sets = make_feeds(session, shapes, dims, warn=warn)
        lines += _measure_all(session, sets, cache, progress)
    return _summary(started, _control.stats(session), lines)


def _measure_all(
    session: ort.InferenceSession,
    sets: Iterable[Feeds],
    cache: str | os.PathLike[str] | None,
    progress: Progress | None,
) -> list[str]:
    """Runs each set of feeds and measures what it met, until a run meets nothing new."""
    lines: list[str] = []
    _control._ask(session, "collect", on=True)
    try:
        for feeds in sets:
            while True:  # of a large model not everything may find room to wait at once
                _run(session, feeds)
                found = measure_pending(session, cache, progress)
                lines += found
                if not found:
                    break
    finally:
        _control._ask(session, "collect", on=False)
    return lines


def measure_pending(
    session: ort.InferenceSession,
    cache: str | os.PathLike[str] | None,
    progress: Progress | None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Measures until nothing is pending, saving after each problem if there is a cache; a line for each."""
    lines: list[str] = []
    tuned = 0
    before = _control.stats(session).tuning_seconds
    last_pending = -1
    changed = clock()
    while True:
        answer = _control._ask(session, "tune_pending", max_problems=1)
        pending = int(answer["pending"])
        if answer["tuned"]:
            tuned += int(answer["tuned"])
            lines.append(str(answer["last"]))
            if cache is not None:
                _control.save_own_cache(session)
            if progress is not None:
                seconds = _control.stats(session).tuning_seconds - before
                progress(TuneProgress(tuned, pending, seconds, lines[-1]))
        if pending == 0:
            return lines
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


def _summary(before: _control.Stats, after: _control.Stats, lines: list[str]) -> TuneSummary:
    return TuneSummary(
        tuned=after.tuned - before.tuned,
        seconds=after.tuning_seconds - before.tuning_seconds,
        denied=after.denied,
        lines=lines,
    )
