"""A process of any Python that serves `worker`, and goes when whoever started it goes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .. import errors
from ..errors import TunableOpError
from .spec import Feeds, SideError
from .worker.arrays import load_arrays, save_arrays
from .worker.service import MARK

POLL_SECONDS = 0.2
PULSE_SECONDS = 1.0  # how often, at most, a process that is timing says that requests still return
DEATH_SECONDS = 5.0  # for a process that closed its pipe to end
CHUNK = 65536
MOST_NOISE = 1 << 20  # bytes printed before the first answer: more is no Python that runs the worker

#: The worker is copied beside the arrays, for a folder of this package would bring its other modules along;
#: what lies in the directory that this process happens to be in must not be imported either.
_START = (
    "import sys; sys.path[:] = [sys.argv[1]] + [path for path in sys.path if path]; "
    "from tunableop_worker.service import main; sys.exit(main(sys.argv[1]))"
)


@dataclass(frozen=True)
class Limits:
    """Seconds after which a process is taken for hung, and killed."""

    start: float = 60.0  #: until its Python runs
    open: float = 1800.0  #: until the session is made; some providers build engines then
    answer: float = 600.0  #: for one request, and in a block from one that returns to the next
    close: float = 60.0  #: for the session to end


class WorkerProcess:
    """Asks a process of `python`. Not thread-safe. `label` begins every message.

    Whatever ends it (close, an error, an interrupt, this object's end, this process's end), no process of its
    group and no file is left.
    """

    def __init__(self, python: Path, label: str, ours: bool, limits: Limits | None = None) -> None:
        """Raises SideError when there is no such Python or it does not come up."""
        self._limits = limits or Limits()
        self._label = label
        self._buffer = bytearray()
        self._noise = 0
        self._printed = ""
        self._folder = Path(tempfile.mkdtemp(prefix="tunableop-side-"))
        try:
            self._process = self._start(python, ours)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._finalizer = weakref.finalize(self, _end, self._process, self._folder)
        try:
            self.hello: Mapping[str, Any] = self._answer("start", self._limits.start)
        except BaseException:
            self.kill()
            raise

    def _start(self, python: Path, ours: bool) -> subprocess.Popen[bytes]:
        here = Path(__file__).parent / "worker"
        shutil.copytree(here, self._folder / "tunableop_worker", ignore=shutil.ignore_patterns("__pycache__"))
        with self._errors.open("wb") as errors_file:
            try:
                return subprocess.Popen(
                    [str(python), "-c", _START, str(self._folder)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors_file,
                    env=environment(python, ours),
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise SideError(f"{self._label}: there is no Python {python}") from None
            except OSError as error:
                why = error.strerror or error
                raise SideError(f"{self._label}: the Python {python} cannot be run: {why}") from error

    @property
    def _errors(self) -> Path:
        return self._folder / "stderr"

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def folder(self) -> Path:
        """Where arrays are exchanged; gone after the end."""
        return self._folder

    @property
    def alive(self) -> bool:
        """It has not been ended by this object. It may have died by itself: the next question finds out."""
        return self._finalizer.alive

    def open(self, spec: Mapping[str, Any], feeds: Feeds) -> dict[str, Any]:
        """Makes the session."""
        listed = save_arrays(self._folder, "feed", feeds.items())
        return self.ask("open", self._limits.open, spec=spec, feeds=listed)

    def ask(self, what: str, limit: float | None = None, **more: Any) -> dict[str, Any]:
        """The answer to one request; arrays in it are loaded.

        Raises:
            SideError: it cannot do that, it died, or it did not answer. After the latter two it is no more.
            TunableOpError: of our own provider, as the process raised it.
        """
        if not self.alive:
            raise SideError(f"{self._label}: its process has ended")
        try:
            with contextlib.suppress(BrokenPipeError):  # that it died is said below, with the reason
                pipe: IO[bytes] | None = self._process.stdin
                assert pipe is not None
                pipe.write(json.dumps({"do": what, **more}).encode() + b"\n")
                pipe.flush()
            answer = self._answer(what, limit or self._limits.answer)
        except BaseException:
            self.kill()
            raise
        if "failed" in answer:
            raise self._failure(answer["failed"])
        done: dict[str, Any] = answer["done"]
        if "arrays" in done:
            done["arrays"] = load_arrays(self._folder, done["arrays"])
        return done

    def block(self, **how: Any) -> dict[str, Any]:
        """Times requests; however many there are, one returns within Limits.answer."""
        return self.ask("block", pulse_seconds=min(PULSE_SECONDS, self._limits.answer / 10), **how)

    def close(self) -> None:
        """Ends the session and the process. Raises SideError when it does not end well."""
        if not self.alive:
            return
        try:
            self.ask("close", self._limits.close)
            end = time.monotonic() + self._limits.close
            while self._exit_code() is None and time.monotonic() < end:
                time.sleep(0.005)
            if self._exit_code() != 0:
                raise self._death()
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends the process, and those it started, at once. More than once does nothing."""
        self._finalizer()

    def _answer(self, what: str, limit: float) -> dict[str, Any]:
        end = time.monotonic() + limit
        while True:
            message = self._message(end)
            if message is None:
                raise SideError(
                    f"{self._label}: no answer to '{what}' for {limit:g} seconds; its process was killed"
                    + self._last_words()
                )
            if "alive" not in message:
                return message
            end = time.monotonic() + limit  # calls return

    def _message(self, end: float) -> dict[str, Any] | None:
        """The next one; None when the time is over."""
        mark = MARK.encode()
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while True:
            while (at := self._buffer.find(b"\n")) >= 0:
                line = bytes(self._buffer[:at])
                del self._buffer[: at + 1]
                message = _message_in(line)
                if message is not None:
                    self._noise = 0
                    return message
                self._hear(line)
            if len(self._buffer) > MOST_NOISE and not self._buffer.startswith(mark):
                self._hear(bytes(self._buffer))
                self._buffer.clear()
            if time.monotonic() >= end:
                return None
            if poll.poll(1000 * POLL_SECONDS):
                chunk = os.read(descriptor, CHUNK)
                if not chunk:
                    raise self._death()
                self._buffer += chunk
            elif self._exit_code() is not None:  # its pipe may live on in a process that it left behind
                raise self._death()

    def _hear(self, line: bytes) -> None:
        """What somebody else printed: skipped, unless there is nothing else."""
        self._noise += len(line) + 1
        self._printed = line.decode(errors="replace").strip()[-200:] or self._printed
        if self._noise > MOST_NOISE:
            raise SideError(f"{self._label}: it prints without end and does not answer; is it a Python?")

    def _exit_code(self) -> int | None:
        """As Popen has it; the process is left to be reaped, so that nobody else can have its number yet."""
        info = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is None:
            return None
        return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status

    def _death(self) -> SideError:
        end = time.monotonic() + DEATH_SECONDS
        while (code := self._exit_code()) is None and time.monotonic() < end:
            time.sleep(0.005)
        if code is None:
            how = "closed its pipe and stayed"
        elif code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
            how += " (the system, for want of memory?)" if code == -signal.SIGKILL else ""
        else:
            how = f"ended with exit code {code}"
        return SideError(f"{self._label}: its process {how}{self._last_words()}")

    def _last_words(self) -> str:
        try:
            with self._errors.open("rb") as file:
                file.seek(max(0, self._errors.stat().st_size - 8192))
                lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
        except OSError:
            lines = []
        said = next((line for line in reversed(lines) if line), self._printed)
        return f": {said}" if said else ""

    def _failure(self, told: Mapping[str, Any]) -> Exception:
        if told["kind"] == "ValueError":  # of how it was asked
            return ValueError(str(told["message"]))
        kind = getattr(errors, str(told["kind"]), None)
        if isinstance(kind, type) and issubclass(kind, TunableOpError):
            return kind(str(told["message"]))
        return SideError(f"{self._label}: {told['message']}")


def _message_in(line: bytes) -> dict[str, Any] | None:
    """What the worker wrote; None when somebody else wrote the line."""
    mark = MARK.encode()
    if not line.startswith(mark):
        return None
    try:
        message = json.loads(line[len(mark) :])
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def environment(python: Path, ours: bool) -> dict[str, str]:
    """What the process sees: with this Python what this process imports; with another nothing of that.

    Variables of our provider reach sides of ours only.
    """
    kept = {key: value for key, value in os.environ.items() if ours or not key.startswith("TUNABLEOP_")}
    if python.absolute() == Path(sys.executable).absolute():
        path = os.pathsep.join(filter(None, sys.path))
        return kept | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return {key: value for key, value in kept.items() if key not in ("PYTHONPATH", "PYTHONHOME")}


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Kills the group while its leader, not reaped yet, keeps the number from being another's."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    shutil.rmtree(folder, ignore_errors=True)
