"""Commands that are told to end while they work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_COMMAND = """
import sys, tempfile, pathlib, ctypes
from onnxruntime_ep_tunableop.cli.ending import Ended, tidy
with tidy(grace=0.2), tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "model").write_bytes(b"x")
    print("begun", flush=True)
    {wait}
"""


def _ended_by(number: int, wait: str, temporary: Path) -> int:
    with subprocess.Popen(
        [sys.executable, "-c", _COMMAND.format(wait=wait)],
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(temporary)},
        preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGTERM, signal.SIGHUP)],
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        return process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_puts_its_files_away(tmp_path, number):
    assert _ended_by(number, "import time; time.sleep(300)", tmp_path) == 128 + number
    assert not list(tmp_path.glob("tmp*"))  # onnxruntime may keep a file of its own there


def test_a_call_that_does_not_return_does_not_keep_it_alive(tmp_path):
    # A mutex of zeros is an open one; locked twice by one thread it never comes back, whatever the signal.
    wait = "libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64); "
    wait += "libc.pthread_mutex_lock(mutex); libc.pthread_mutex_lock(mutex)"
    assert _ended_by(signal.SIGTERM, wait, tmp_path) == 128 + signal.SIGTERM


def test_signals_that_are_ignored_stay_ignored():
    """As nohup has it."""
    script = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from onnxruntime_ep_tunableop.cli.ending import tidy\n"
        "with tidy(): assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
