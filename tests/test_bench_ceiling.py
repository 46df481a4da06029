from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime_ep_tunableop import OptionError
from onnxruntime_ep_tunableop.bench import ceiling, gemm
from onnxruntime_ep_tunableop.bench.ceiling import Ceiling, Effort
from onnxruntime_ep_tunableop.bench.shapes import Shape
from support.cards import BOTH, on_card

LITTLE = Effort((64, 128), 1 << 20, 0.2)


@pytest.mark.parametrize("threads", [1, 2, None])
def test_what_a_processor_can_do(threads: int | None):
    found = ceiling.measure("cpu", threads, effort=LITTLE)
    assert found.gflops > 0.0
    assert found.gigabytes_per_second > 0.0
    who = "(tunableop|CPUExecutionProvider|numpy)"
    cache = r"( \(last cache: \d+ MiB\))?"
    assert re.fullmatch(f"fp32: {who} at (64|128) squared; .+ of 1 MiB{cache}", found.how), found.how


def test_a_product_is_not_much_above_the_ceiling():
    """Both are best cases of the same machine; what is wrong by the size of a unit is off by thousands."""
    found = ceiling.measure("cpu", 1, effort=LITTLE)
    shape = Shape("square", 1, 128, 128, 128, True)
    rows = gemm.run([shape], device="cpu", threads=1, rounds=3, seconds=0.002, max_tuning_ms=30.0)
    best = max(row.gflops for row in rows if row.timed == "session")
    assert best < 20 * found.gflops
    assert best > found.gflops / 200


@pytest.mark.parametrize(
    ("dtype", "kind"), [("fp32", "fp32"), ("fp16", "fp32"), ("bf16", "fp32"), ("fp64", "fp64")]
)
def test_types_of_a_processor(dtype: str, kind: str):
    found = ceiling.measure("cpu", 1, dtype, effort=Effort((32,), 1 << 18, 0.02))
    assert found.how.startswith(f"{kind}: ")
    assert found.gflops > 0.0


def test_what_is_not_there():
    with pytest.raises(OptionError, match="dtype: expected fp32, fp16, bf16, tf32, fp64, found 'int8'"):
        ceiling.measure("cpu", 1, "int8")
    with pytest.raises(OptionError, match="option 'device'"):
        ceiling.measure("gpu")


class Clock:
    """Calls take what they are told to, on a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(ceiling.time, "perf_counter", lambda: self.now)

    def call(self, *seconds: float) -> Any:
        left = list(seconds)

        def run() -> None:
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_the_fastest_call_counts_after_an_untimed_one(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    assert ceiling._fastest(clock.call(0.1, 5.0, 2.0, 3.0, 4.0), seconds=9.5) == pytest.approx(2.0)
    assert ceiling._fastest(clock.call(100.0, 7.0, 6.0, 1.0), seconds=0.0) == pytest.approx(6.0), (
        "two at least"
    )


def test_memory_by_hand(monkeypatch: pytest.MonkeyPatch):
    """The sum reads every byte once; the copy reads one half and writes the other."""
    values = np.arange(1000, dtype=np.float32)
    seen: list[float] = []

    def fastest(call: Any, seconds: float) -> float:
        call()
        seen.append(seconds)
        return 2.0 if len(seen) == 1 else 0.5

    monkeypatch.setattr(ceiling, "_fastest", fastest)
    best = ceiling._memory(ceiling._Best(0.0, ""), values, 3, 0.25)
    assert best == ceiling._Best(2 * 500 * 4 / 0.5, "the copy")
    assert seen == [0.25, 0.25]
    np.testing.assert_array_equal(values[500:], np.arange(500))
    better = ceiling._Best(1e9, "somebody")
    assert ceiling._memory(better, values, 2, 0.25) is better


def test_larger_squares_are_left_out_when_there_is_no_time(monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []
    real = ceiling.products.make

    def make(shape: Shape, kind: str) -> Any:
        made.append(shape.m)
        return real(shape, kind)

    monkeypatch.setattr(ceiling.products, "make", make)
    monkeypatch.setattr(ceiling, "_fastest", lambda call, seconds: 1e-3)
    ceiling.measure("cpu", 1, effort=Effort((16, 64, 1 << 14), 1 << 14, 60.0))
    assert made == [16, 64, 1], "two squares, and the row of the stream"


def test_the_size_of_the_last_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for at, (level, size) in enumerate((("1", "48K"), ("2", "2048K"), ("3", "33M"), ("1", "32K"))):
        folder = tmp_path / f"index{at}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    broken = tmp_path / "index9"
    broken.mkdir()
    (broken / "level").write_text("4\n")
    monkeypatch.setattr(ceiling, "Path", lambda _: tmp_path)
    assert ceiling.last_level_cache() == 33 << 20
    monkeypatch.setattr(ceiling, "Path", lambda _: tmp_path / "nothing")
    assert ceiling.last_level_cache() == 0


def test_what_is_measured_unless_told():
    effort = ceiling._effort(gemm._devices.choose("cpu"))
    assert effort.squares == (512, 1024, 2048)
    assert 16 << 20 <= effort.stream_bytes <= 512 << 20


@on_card(*BOTH)
def test_what_a_card_can_do() -> None:
    for dtype in ("fp32", "fp16", "bf16"):
        found = ceiling.measure("auto", None, dtype, effort=Effort((64,), 1 << 16, 0.1))
        assert isinstance(found, Ceiling)
        assert found.gflops > 0.0
        assert found.gigabytes_per_second > 0.0
        # There is no stock provider for a simulated card.
        assert found.how == f"{dtype}: tunableop at 64 squared; tunableop with a matrix of 0.0625 MiB", (
            found.how
        )
    effort = ceiling._effort(gemm._devices.choose("auto"))
    assert effort.squares[-1] == 8192
    assert effort.stream_bytes <= 2 << 30
