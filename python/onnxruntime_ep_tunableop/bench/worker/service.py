"""The process: requests on stdin, answers on stdout, arrays in files.

A request is a line of JSON ({"do": "open", ...}). An answer is a line that begins with MARK, so that whoever
reads can skip what others print; once the process is up, prints go to stderr. Arrays travel as .npy files in
a folder that the parent made and removes. A process whose stdin ends goes at once: its parent is no more.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import queue
import resource
import shutil
import threading
from pathlib import Path
from typing import Any, Mapping  # noqa: UP035 (Python 3.8)

from .arrays import load_arrays, save_arrays
from .callers import wait_until_idle
from .failure import WorkerError, one_line
from .runner import Runner, import_seconds

MARK = "@tunableop-bench "


def peak_bytes() -> int:
    """The most memory that this process had resident at any time."""
    with contextlib.suppress(OSError, ValueError):
        # Of this program alone; what getrusage tells may be inherited from the one that started it.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Answers:
    """The pipe to the parent; whole lines, from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._pipe = os.fdopen(descriptor, "wb", buffering=0)
        self._lock = threading.Lock()

    def tell(self, **what: Any) -> None:
        """One answer. The line break before it ends what somebody else may have begun."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._pipe.write(f"\n{MARK}{json.dumps(what)}\n".encode())


class Service:
    """Does what the parent asks for."""

    def __init__(self, folder: Path, answers: Answers) -> None:
        self._folder = folder
        self._answers = answers
        self._runner: Runner | None = None

    def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        what = request["do"]
        if what == "open":
            imported = import_seconds(request["spec"]["kind"])  # before anything else imports NumPy
            feeds = load_arrays(self._folder, request["feeds"])
            self._runner = Runner(request["spec"], feeds, imported)
            return self._runner.facts()
        if what == "memory":
            return {"peak_bytes": peak_bytes()}
        if self._runner is None:
            raise WorkerError("order", f"'{what}' before 'open'")
        if what == "run":
            return {"arrays": save_arrays(self._folder, "output", self._runner.outputs().items())}
        if what == "request":
            return {"seconds": self._runner.timed_request()}
        if what == "block":
            return self._block(request)
        if what == "stats":
            return self._runner.stats()
        if what == "close":
            self._runner.close()
            self._runner = None
            return {}
        raise WorkerError("order", f"there is no request '{what}'")

    def _block(self, request: Mapping[str, Any]) -> dict[str, Any]:
        import numpy as np

        assert self._runner is not None
        over = threading.Event()
        pulse = threading.Thread(
            target=self._pulse, args=(self._runner, over, float(request["pulse_seconds"])), daemon=True
        )
        pulse.start()
        try:
            wall_seconds, latencies = self._runner.block(
                seconds=request["seconds"], calls=request["calls"], warmup_calls=request["warmup_calls"]
            )
        finally:
            over.set()
        wait_until_idle()  # the next block may be another process's
        arrays = save_arrays(self._folder, "block", [("latencies", np.array(latencies, np.float64))])
        return {"wall_seconds": wall_seconds, "arrays": arrays}

    def _pulse(self, runner: Runner, over: threading.Event, seconds: float) -> None:
        """Says that calls return; a parent that hears nothing for long takes the process for hung."""
        seen = 0
        while not over.wait(seconds):
            if runner.returned != seen:
                seen = runner.returned
                self._answers.tell(alive=seen)


def _read(descriptor: int, folder: str, requests: queue.Queue[bytes], closing: threading.Event) -> None:
    """Reads without a lock: one that a thread holds while the interpreter ends is a fatal error."""
    begun = b""
    while True:
        chunk = os.read(descriptor, 65536)
        if not chunk:
            break
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            requests.put(line)
    if not closing.is_set():  # the parent is gone, whatever the session is doing
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def main(folder: str) -> int:
    """Serves until told to close."""
    answers = Answers(os.dup(1))
    incoming = os.dup(0)
    os.dup2(2, 1)  # what libraries print
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    closing = threading.Event()
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(incoming, folder, requests, closing), daemon=True).start()
    answers.tell(hello={"python": platform.python_version(), "pid": os.getpid()})
    service = Service(Path(folder), answers)
    while not closing.is_set():
        request = json.loads(requests.get())
        if request["do"] == "close":
            closing.set()
        try:
            answers.tell(done=service.do(request))
        except WorkerError as failure:
            answers.tell(failed={"kind": failure.kind, "message": str(failure)})
        except Exception as error:  # our package's own, by name; and what nobody thought of
            answers.tell(failed={"kind": type(error).__name__, "message": one_line(error)})
    return 0
