from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from onnxruntime_ep_tunableop.bench import turns
from onnxruntime_ep_tunableop.bench.figures import Throughput
from onnxruntime_ep_tunableop.bench.turns import Plan, Timing
from onnxruntime_ep_tunableop.bench.worker import callers


class Scripted:
    """A side that says what its blocks took, and writes down what it was asked."""

    def __init__(self, blocks: Iterator[Timing], log: list[tuple[object, ...]] | None = None) -> None:
        self.blocks = blocks
        self.log = log if log is not None else []

    def block(self, *, seconds: float | None, calls: int | None, warmup_calls: int) -> Timing:
        self.log.append((self, seconds, calls, warmup_calls))
        return next(self.blocks)


@pytest.fixture(autouse=True)
def _nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "wait_until_idle", lambda: None)


def same(*latencies: float) -> Scripted:
    return Scripted(itertools.repeat(Timing(sum(latencies), latencies)))


def test_every_side_has_one_block_in_every_round_in_an_order_that_is_drawn_and_recorded():
    log: list[tuple[object, ...]] = []
    names = ("a", "b", "c")
    sides = {name: Scripted(itertools.repeat(Timing(1.0, (1.0,))), log) for name in names}
    seen: list[tuple[str, int, int]] = []
    plan = Plan(rounds=20, seconds=None, calls=3, warmup_calls=2, seed=5)
    found = turns.take_turns(sides, plan, lambda *step: seen.append(step))

    assert len(found.order) == 20
    assert all(sorted(order) == list(names) for order in found.order)
    assert len(set(found.order)) > 3, "the order changes"
    assert {order[0] for order in found.order} == set(names)
    recorded = [name for order in found.order for name in order]
    assert [block.side for block in found.blocks] == recorded
    assert [entry[0] for entry in log] == [sides[name] for name in recorded], "and is what really ran"
    assert [block.round for block in found.blocks] == [at // 3 for at in range(60)]
    assert all(entry[1:] == (None, 3, 2) for entry in log)
    assert seen == [(f"measuring {name}", at + 1, 60) for at, name in enumerate(recorded)]

    assert turns.take_turns(sides, plan).order == found.order, "drawn from the seed"
    other = Plan(rounds=20, seconds=None, calls=3, seed=6)
    assert turns.take_turns(sides, other).order != found.order


def test_figures_of_a_side():
    slow = Scripted(iter([Timing(10.0, (1.0, 2.0, 6.0)), Timing(4.0, (3.0, 1.0))]))
    found = turns.take_turns({"slow": slow, "fast": same(1.0)}, Plan(rounds=2))
    assert found.latencies("slow") == [1.0, 2.0, 6.0, 3.0, 1.0]
    assert found.round_medians("slow") == [2.0, 2.0]
    assert found.throughput("slow") == Throughput(pytest.approx(0.4), pytest.approx(0.1 * 2**0.5))
    ratio = found.ratio("slow", "fast")
    assert ratio.value == 2.0
    assert not ratio.is_known, "two rounds say nothing of what others would"
    assert 2.0 not in ratio
    assert str(ratio) == "2.000 (no interval)"
    five = turns.take_turns({"slow": same(2.0), "fast": same(1.0)}, Plan(rounds=5)).ratio("slow", "fast")
    assert (five.value, five.low, five.high) == (2.0, 2.0, 2.0)
    assert found.ratio("fast", "slow").value == 0.5
    with pytest.raises(KeyError, match="nobody"):
        found.latencies("nobody")


def test_a_drift_of_the_machine_is_taken_out_of_the_ratio():
    def drifting(factor: float) -> Scripted:
        return Scripted(iter([Timing(1.0, (factor * (1.0 + 0.1 * at),)) for at in range(20)]))

    found = turns.take_turns({"stock": drifting(2.2), "ours": drifting(2.0)}, Plan(rounds=20))
    ratio = found.ratio("stock", "ours")
    assert (ratio.low, ratio.high) == (pytest.approx(1.1), pytest.approx(1.1))
    assert found.ratio("stock", "ours", seed=3) == found.ratio("stock", "ours", seed=3)


def test_a_block_without_a_call_is_an_error_that_names_the_side():
    sides = {"empty": Scripted(iter([Timing(1.0, ())]))}
    with pytest.raises(RuntimeError, match="side 'empty' made no call in round 0"):
        turns.take_turns(sides, Plan(rounds=1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": None},
        {"seconds": 1.0, "calls": 5},
        {"rounds": 0},
        {"warmup_calls": -1},
        {"seconds": 0.0},
        {"seconds": None, "calls": 0},
    ],
)
def test_a_plan_that_measures_nothing_is_refused(wrong: dict[str, object]):
    with pytest.raises(ValueError, match=r"block|nothing to measure"):
        Plan(**wrong)


def test_a_function_is_a_side(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    calls = []

    def work() -> None:
        calls.append(now[0])
        now[0] += 1.0

    monkeypatch.setattr(turns.time, "perf_counter", lambda: now[0])
    side = turns.Calls(work)
    assert side.block(seconds=None, calls=3, warmup_calls=2) == Timing(3.0, (1.0, 1.0, 1.0))
    assert len(calls) == 5
    # As long as the time is not over; a call that began in time is finished.
    assert side.block(seconds=2.5, calls=None, warmup_calls=0) == Timing(3.0, (1.0, 1.0, 1.0))
    assert side.block(seconds=0.1, calls=None, warmup_calls=0) == Timing(1.0, (1.0,)), "one at least"


def test_a_pool_gets_the_time_to_wake(monkeypatch: pytest.MonkeyPatch):
    now, calls = [0.0], []

    def work() -> None:
        calls.append(now[0])
        now[0] += 0.01

    monkeypatch.setattr(turns.time, "perf_counter", lambda: now[0])
    for make in (lambda: turns.Calls(work), None):
        calls.clear()
        if make is not None:
            make().block(seconds=None, calls=1, warmup_calls=2)
        else:  # the worker's, which stands alone
            caller = callers.Caller(work, work)
            caller.warm_up(2)
            caller.time(iter(range(1)), None)
        assert calls[-1] - calls[0] >= turns.WAKE_SECONDS - 0.011
        assert len(calls) >= 5
    assert callers.WAKE_SECONDS == turns.WAKE_SECONDS


def test_waiting_ends_when_nothing_runs_and_at_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    now, used, busy = [0.0], [0.0], [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        used[0] += seconds if now[0] <= busy[0] else 0.0

    monkeypatch.setattr(turns.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(turns.time, "process_time", lambda: used[0])
    monkeypatch.setattr(turns.time, "sleep", sleep)
    turns.wait_until_idle(limit=0.5, window=0.01)
    assert now[0] == pytest.approx(0.01), "idle at once"
    now[0], busy[0] = 0.0, 0.1
    turns.wait_until_idle(limit=0.5, window=0.01)
    assert 0.1 < now[0] < 0.13
    now[0], busy[0] = 0.0, 100.0
    turns.wait_until_idle(limit=0.5, window=0.01)
    assert now[0] == pytest.approx(0.5, abs=0.02)
