"""Tuning in a worker process that a kernel may kill: the parent's side."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _options
from ._arguments import model_argument
from ._shapes import Shapes, shape_sets
from .errors import NoDeviceError, OptionError, TunableOpError, UnsupportedRuntimeError
from .tuning import Progress, TuneProgress, TuneSummary

if TYPE_CHECKING:
    import onnx

logger = logging.getLogger("tunableop")

MOST_RESTARTS = 20
POLL_SECONDS = 0.2
WORKER = "onnxruntime_ep_tunableop._tune_worker"


@dataclass
class _Run:
    """What all workers together did."""

    tuned: int = 0
    seconds: float = 0.0
    denied: int = 0
    restarts: int = 0
    lines: list[str] = field(default_factory=list)


class HangWatch:
    """Decides from what a journal shows whether a call has hung."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._calls = -1
        self._since = 0.0

    def hung(self, shown: _core.JournalView | None) -> bool:
        """Whether the call that is shown is the same one since `seconds`."""
        if shown is None or not shown["in_call"]:
            self._calls = -1
            return False
        now = self._clock()
        if shown["calls"] != self._calls:
            self._calls, self._since = shown["calls"], now
        return now - self._since >= self._seconds


def tune_isolated(
    model: str | bytes | os.PathLike[str] | onnx.ModelProto,
    shapes: Shapes,
    dims: Mapping[str, int] | None,
    cache: str | os.PathLike[str] | None,
    *,
    hang_seconds: float,
    progress: Progress | None,
    options: Mapping[str, Any],
) -> TuneSummary:
    """`tune` with isolate=True."""
    if cache is None:
        raise OptionError("isolate: expected a cache file too, for that is how workers know of each other")
    if not hang_seconds > 0:
        raise OptionError(f"hang_seconds: expected more than 0, found {hang_seconds!r}")
    cache_path = str(Path(cache).absolute())
    run = _Run()
    with tempfile.TemporaryDirectory(prefix="tunableop-") as folder:
        job = {
            "model": _model_file(model, Path(folder)),
            "shapes": None if shapes is None else _portable(shapes, Path(folder)),
            "dims": dict(dims or {}),
            "cache": cache_path,
            "options": _options.check(dict(options)),
            "warn": True,
        }
        while not _one_worker(job, cache_path, hang_seconds, progress, run):
            job["warn"] = False
    return TuneSummary(run.tuned, run.seconds, run.denied, run.restarts, run.lines)


def _model_file(model: str | bytes | os.PathLike[str] | onnx.ModelProto, folder: Path) -> str:
    argument = model_argument(model)
    if not isinstance(argument, bytes):
        return str(Path(argument).absolute())
    path = folder / "model.onnx"
    path.write_bytes(argument)
    return str(path)


def _portable(shapes: Shapes, folder: Path) -> list[dict[str, Any]]:
    """Shapes as JSON; arrays go into files."""
    portable = []
    for number, entry in enumerate(shape_sets(shapes)):
        arrays = {name: value for name, value in entry.items() if isinstance(value, np.ndarray)}
        dimensions = {name: list(value) for name, value in entry.items() if name not in arrays}
        files = {}
        for at, (name, array) in enumerate(arrays.items()):
            path = folder / f"{number}.{at}.npy"
            np.save(path, array, allow_pickle=False)
            files[name] = str(path)
        portable.append({"dimensions": dimensions, "arrays": files})
    return portable


@contextlib.contextmanager
def _worker(job: Mapping[str, Any]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A worker that has its job, and the pipe that it reports on; killed at the end if it still runs."""
    reading, writing = os.pipe()
    try:
        # The worker must import what this process imported, and nothing that lies about in the folder.
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONSAFEPATH": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER, str(writing)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[writing],
            env=environment,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(json.dumps(job).encode())
        yield process, reading
    finally:
        os.close(reading)
        alive = process.poll() is None
        process.kill()
        process.wait()
        if alive:
            _acquit(process.pid, str(job["cache"]))


def _acquit(pid: int, cache: str) -> None:
    """Removes the journal of a worker that was killed because the caller goes: no kernel is to blame."""
    prefix = f"{Path(cache).name}.trying.{pid}."
    with contextlib.suppress(OSError):
        for path in Path(cache).parent.iterdir():
            if path.name.startswith(prefix):
                path.unlink()


def _one_worker(
    job: Mapping[str, Any], cache: str, hang_seconds: float, progress: Progress | None, run: _Run
) -> bool:
    """True: it did all that there was to do. False: a kernel killed it."""
    watch = HangWatch(hang_seconds)
    hung = False
    report: dict[str, Any] = {}
    before = (run.tuned, run.seconds)
    with _worker(job) as (process, pipe):
        buffer = b""
        poll = select.poll()  # select has no room for large numbers of descriptors
        poll.register(pipe, select.POLLIN)
        while True:
            if poll.poll(1000 * min(POLL_SECONDS, hang_seconds / 4)):
                chunk = os.read(pipe, 65536)
                if not chunk:
                    break
                *complete, buffer = (buffer + chunk).split(b"\n")
                for line in complete:
                    report = json.loads(line)
                    _take(report, before, progress, run)
            if not hung and watch.hung(_core.watch_journal(cache, process.pid)):
                hung = True
                process.kill()
        code = process.wait()
        if report.get("event") == "error":
            raise _error(report)
        if report.get("event") == "done" and code == 0:
            return True
        _bury(process.pid, code, hung, hang_seconds, cache, run)
    return False


def _take(report: Mapping[str, Any], before: tuple[int, float], progress: Progress | None, run: _Run) -> None:
    if report["event"] == "error":
        return
    run.tuned = before[0] + int(report["tuned"])
    run.seconds = before[1] + float(report["seconds"])
    if report["event"] == "done":
        run.denied += int(report["denied"])
        return
    run.lines.append(str(report["line"]))
    if progress is not None:
        progress(TuneProgress(run.tuned, int(report["pending"]), run.seconds, run.lines[-1]))


def _error(report: Mapping[str, Any]) -> Exception:
    kinds = {kind.__name__: kind for kind in (OptionError, NoDeviceError, UnsupportedRuntimeError)}
    return kinds.get(str(report["type"]), TunableOpError)(str(report["message"]))


def _bury(pid: int, code: int, hung: bool, hang_seconds: float, cache: str, run: _Run) -> None:
    """A line on how a worker died. TunableOpError: another one would fare no better."""
    call = _core.last_call(cache, pid)
    if hung:
        how = f"did not come back for {hang_seconds:g} seconds, and the worker was killed"
    elif code == -signal.SIGKILL:
        how = "was running when somebody killed the worker (the system, for want of memory?)"
    elif code < 0:
        how = f"killed the worker ({signal.Signals(-code).name})"
    else:
        how = f"ended the worker (exit code {code})"
    if call is None:
        death = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        raise TunableOpError(
            f"the worker ended {death}, and not in a kernel that was being tried; "
            f"what was measured until then is in {cache}"
        )
    line = f"{call['library']}:{call['kernel']} {how} ({call['problem']})"
    logger.warning("%s", line)
    run.lines.append(line)
    run.restarts += 1
    run.denied += 1
    if run.restarts > MOST_RESTARTS:
        raise TunableOpError(
            f"{run.restarts} workers died; the last: {line}; what was measured until then is in {cache}"
        )
