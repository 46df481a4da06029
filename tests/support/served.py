"""A server in a process of its own, on free ports; nothing of it is left after the test."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FAKE = Path(__file__).resolve().parent / "fake_engine.py"


@dataclass
class Server:
    process: subprocess.Popen[str]
    http: str  #: host:port
    grpc: str

    def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = 60.0) -> tuple[int, str]:
        """The exit code, and what it said after its ports."""
        self.process.send_signal(number)
        said, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, said


@contextlib.contextmanager
def started(command: Sequence[str], prepare: Callable[[], None] | None = None) -> Iterator[Server]:
    """`prepare` is called in the new process, before the command."""
    process = subprocess.Popen([*command], stdout=subprocess.PIPE, text=True, preexec_fn=prepare)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"it ended before it served, with exit code {process.wait(timeout=60)}"
        ports = json.loads(line)
        yield Server(process, f"127.0.0.1:{ports['http_port']}", f"127.0.0.1:{ports.get('grpc_port')}")
    finally:
        process.kill()
        process.wait(timeout=60)
        if process.stdout is not None:
            process.stdout.close()


def fake(
    *arguments: str, prepare: Callable[[], None] | None = None
) -> contextlib.AbstractContextManager[Server]:
    return started([sys.executable, str(FAKE), *arguments], prepare)
