"""What other processes took of the processors, read off a made-up /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from onnxruntime_ep_tunableop.bench import others

TICK = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two processors of this process, 1 and 3, and a clock that stands at 100 s."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3})
    clock = iter([100.0, 110.0, 120.0])
    monkeypatch.setattr(others.time, "monotonic", lambda: next(clock))
    write(tmp_path, busy={0: 0, 1: 0, 3: 0}, own=0, worker=0)
    return tmp_path


def write(proc: Path, busy: dict[int, float], own: float, worker: float) -> None:
    """Seconds of each processor, split over user and system; of this process and of a worker."""
    lines = ["cpu  1 1 1 1 1 1 1 1 0 0"]
    for processor, seconds in busy.items():
        half = int(seconds * TICK / 2)
        lines.append(f"cpu{processor} {half} 0 {half} 123456 789 0 0 0 0 0")
    (proc / "stat").write_text("\n".join([*lines, "intr 5"]))
    for pid, seconds in ((os.getpid(), own), (4711, worker)):
        (proc / str(pid)).mkdir(exist_ok=True)
        fields = " ".join(["S", *["0"] * 10, str(int(seconds * TICK)), "0", "0"])
        (proc / str(pid) / "stat").write_text(f"{pid} (a (strange) name) {fields}")


def test_what_is_neither_ours_nor_a_workers_is_others(proc):
    watch = others.OtherWork([4711], proc)
    # In 10 s of two processors 9 s of work, 4 s of it ours and 3 s a worker's: 2 s of 20.
    write(proc, busy={0: 10, 1: 5, 3: 4}, own=4, worker=3)
    assert watch.share() == pytest.approx(0.1)
    assert "took 10 % of the processors" in others.note(0.1)[0]


def test_a_quiet_machine_is_not_worth_a_word(proc):
    watch = others.OtherWork((), proc)
    write(proc, busy={0: 10, 1: 5, 3: 0}, own=5, worker=0)
    assert watch.share() == 0.0
    assert others.note(0.0) == others.note(0.04) == others.note(None) == []


def test_a_system_that_does_not_tell(tmp_path):
    assert others.OtherWork((), tmp_path).share() is None


def test_this_machine_tells():
    share = others.OtherWork().share()
    assert share is None or 0.0 <= share <= 1.0
