"""The process behind a side: what it prints, how it dies, and that nothing of it is left."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnxruntime_ep_tunableop.bench import worker_process
from onnxruntime_ep_tunableop.bench.other_process import OtherProcess
from onnxruntime_ep_tunableop.bench.sides import Limits, SideError, open_side
from onnxruntime_ep_tunableop.bench.worker_process import WorkerProcess
from support.other_python import script
from support.sides import THIS, exists, product, stock
from support.waiting import until

TESTS = Path(__file__).resolve().parent


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, which is empty again at the end of each test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert left(folder) == []


def left(folder: Path) -> list[Path]:
    """What is ours in it; onnxruntime puts something there as well."""
    return list(folder.glob("tunableop-side-*"))


def opened(tmp_path: Path, python: Path = THIS, limits: Limits | None = None) -> OtherProcess:
    path, feeds, _ = product(tmp_path)
    return OtherProcess(python, stock(path), feeds, limits)


def test_a_closed_side_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    with opened(tmp_path) as side:
        pid = side.facts()["pid"]
        assert exists(pid)
        assert len(left(temporary)) == 1
    assert not exists(pid)


def test_a_forgotten_side_leaves_nothing(tmp_path: Path) -> None:
    side = opened(tmp_path)
    pid = side.facts()["pid"]
    del side
    gc.collect()
    assert not exists(pid)


def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    side = opened(tmp_path)
    pid = side.facts()["pid"]
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(SideError, match=r"^stock \(.*\): its process was killed by SIGKILL \(the system"):
        side.block(seconds=600.0, calls=None, warmup_calls=0)
    killer.join()
    assert not exists(pid)
    with pytest.raises(SideError, match="its process has ended"):
        side.outputs()
    side.close()


def test_a_worker_that_hangs_is_killed(tmp_path: Path) -> None:
    side = opened(tmp_path, limits=Limits(answer=0.3))
    pid = side.facts()["pid"]
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(SideError, match=r"no answer to 'run' for 0\.3 seconds; its process was killed"):
        side.outputs()
    assert not exists(pid)


def test_a_long_block_is_no_hang_while_requests_return(tmp_path: Path) -> None:
    with opened(tmp_path, limits=Limits(answer=1.5)) as side:
        assert len(side.block(seconds=2.5, calls=None, warmup_calls=0).latencies) > 1


def test_a_worker_that_does_not_close_is_killed(tmp_path: Path) -> None:
    side = opened(tmp_path, limits=Limits(close=0.3))
    pid = side.facts()["pid"]
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(SideError, match="no answer to 'close'"):
        side.close()
    assert not exists(pid)


def test_an_error_ends_a_side_at_once(tmp_path: Path) -> None:
    side = opened(tmp_path)
    os.kill(side.facts()["pid"], signal.SIGSTOP)  # whoever waited for it to close would wait for long
    with pytest.raises(ZeroDivisionError), side:
        raise ZeroDivisionError
    assert not exists(side.facts()["pid"])


def test_what_it_started_goes_with_it(tmp_path: Path) -> None:
    python = script(tmp_path / "python", 'sleep 1000 & echo $! >"$0.child"; exec "$PYTHON" "$@"')
    with opened(tmp_path, python):
        child = int((tmp_path / "python.child").read_text())
        assert exists(child)
    until(lambda: not exists(child) or zombie(child), "its child is gone")


def zombie(pid: int) -> bool:
    """Whether it is dead, and only its new parent has not asked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_death_is_noticed_though_a_child_keeps_the_pipe(tmp_path: Path) -> None:
    python = script(tmp_path / "python", "sleep 1000 & echo its last words >&2; exit 3")
    with pytest.raises(SideError, match=r"its process ended with exit code 3: its last words$"):
        opened(tmp_path, python)


def test_prints_do_not_garble_what_is_answered(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, threading, time, os\n"
        "sys.stdout.write('@tunableop-bench begins lines of ours, but not this one\\nhalf a line')\n"
        "sys.stdout.flush()\n"
        "def chatter():\n"
        "    while True:\n"
        "        os.write(1, b'rubbish\\n@tunableop')\n"
        "        print('more', end='', flush=True)\n"
        "        time.sleep(0.001)\n"
        "threading.Thread(target=chatter, daemon=True).start()\n"
    )
    python = script(tmp_path / "python", f'PYTHONPATH=\'{tmp_path}\' exec "$PYTHON" "$@"')
    path, feeds, exact = product(tmp_path)
    with open_side(stock(path), feeds, python) as side:
        for _ in range(20):
            np.testing.assert_allclose(side.outputs()["Y"], exact, rtol=1e-5, atol=1e-5)
        assert len(side.block(seconds=None, calls=100, warmup_calls=0).latencies) == 100


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo 'I am no Python'", "its process ended with exit code 0: I am no Python$"),
        ("echo on >&1; echo broken >&2; exit 7", "its process ended with exit code 7: broken$"),
        ("kill -SEGV $$", "its process was killed by SIGSEGV$"),
        ("exec yes", "it prints without end and does not answer; is it a Python"),
        ("exec cat /dev/zero", "it prints without end and does not answer; is it a Python"),
        ("exec sleep 1000", "no answer to 'start' for 1 seconds; its process was killed$"),
        ("exec 1>&-; sleep 1000", "its process closed its pipe and stayed$"),
    ],
)
def test_what_is_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str) -> None:
    start = 1.0 if body == "exec sleep 1000" else 60.0
    monkeypatch.setattr(worker_process, "DEATH_SECONDS", 0.3)
    with pytest.raises(SideError, match=words):
        opened(tmp_path, script(tmp_path / "python", body), Limits(start=start))


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from support.sides import THIS, product, stock
from onnxruntime_ep_tunableop.bench.sides import open_side
path, feeds, _ = product(Path(sys.argv[2]))
side = open_side(stock(path), feeds, THIS)
print(side.facts()["pid"], flush=True)
if sys.argv[3] == "block":
    side.block(seconds=600.0, calls=None, warmup_calls=0)
"""


def started(tmp_path: Path, how: str) -> tuple[subprocess.Popen[str], int]:
    """A process that has a side, and the process of that."""
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(TESTS), str(tmp_path), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background of a shell it is ignored, and they inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    parent, pid = started(tmp_path, "block")
    parent.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in parent.communicate(timeout=60)[1]
    assert not exists(pid)


def test_a_program_that_ends_leaves_nothing(tmp_path: Path) -> None:
    parent, pid = started(tmp_path, "end")
    parent.communicate(timeout=60)
    assert parent.returncode == 0
    assert not exists(pid)


def test_a_parent_that_is_killed_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    parent, pid = started(tmp_path, "block")
    parent.kill()
    parent.communicate(timeout=60)
    until(lambda: not exists(pid) or zombie(pid), "the worker is gone")
    until(lambda: left(temporary) == [], "its folder is gone")


def test_requests_out_of_order_are_refused() -> None:
    process = WorkerProcess(THIS, "worker", False)
    try:
        with pytest.raises(SideError, match="worker: 'run' before 'open'"):
            process.ask("run")
        with pytest.raises(SideError, match="'dance' before 'open'"):
            process.ask("dance")
        assert json.dumps(process.hello)
    finally:
        process.kill()
