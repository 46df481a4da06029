"""What a card's times are, and that nothing a card does holds the tuner up: budget, memory, hangs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import LISTED, US, VALLEY, found, gave_everything_back, kernel, make_problem, switches
from tuning_helpers import tune_on_card as tune

# ---- cold and warm ------------------------------------------------------------------------------


def test_caches_are_overwritten_before_each_call_when_asked() -> None:
    kernels = kernel("default", 20 * US, warm_ms=10 * US), kernel("slow", 21 * US, warm_ms=11 * US)
    cold = tune(*kernels, cold_b=True)
    assert cold["cold"]
    assert cold["default_ms"] == pytest.approx(20 * US, rel=0.05)
    warm = tune(*kernels, cold_b=False)
    assert not warm["cold"]
    assert warm["default_ms"] == pytest.approx(10 * US, rel=0.05)


@pytest.mark.parametrize("cold", [True, False])
def test_a_winner_does_not_lose_in_the_other_caches(cold: bool) -> None:
    def times(here: float, there: float) -> dict[str, float]:
        return {"ms": here * US if cold else there * US, "warm_ms": there * US if cold else here * US}

    base = {"name": "default", **times(20, 18)}
    fickle = {"name": "fickle", **times(14, 22)}
    steady = {"name": "steady", **times(16, 17)}
    where = "warm caches" if cold else "cold caches"
    result = tune(base, fickle, cold_b=cold)
    assert result["winner"].kernel == "default"
    assert "sim0:fickle" in result["why"]
    assert f"slower in {where}" in result["why"]
    result = tune(base, fickle, steady, cold_b=cold)
    assert result["winner"].kernel == "steady"
    assert "; sim0:fickle is" in result["why"]
    # One per cent is no loss.
    assert tune(base, {"name": "even", **times(14, 18.1)}, cold_b=cold)["winner"].kernel == "even"


def test_long_calls_need_no_comparison_in_other_caches() -> None:
    # Of a call of 2 ms, what caches can give is less than one per cent.
    result = tune(kernel("default", 2.0), kernel("fast", 1.5, warm_ms=9.0), cold_b=True)
    assert result["winner"].kernel == "fast"


def test_without_memory_to_overwrite_caches_it_is_warm() -> None:
    kernels = kernel("default", 20 * US, warm_ms=10 * US), kernel("fast", 15 * US, warm_ms=8 * US)
    card = {"cache_bytes": 1 << 30, "memory_bytes": 1 << 28}
    result = tune(*kernels, cold_b=True, card=card)
    assert not result["cold"]
    assert result["winner"].kernel == "fast"


# ---- what a time is -----------------------------------------------------------------------------


@pytest.mark.parametrize("launch_us", [0.5, 4.0, 10.0])
@pytest.mark.parametrize("cold", [False, True])
def test_launches_are_not_in_the_time(launch_us: float, cold: bool) -> None:
    # Faster than the host can launch them.
    card = {"launch_us": launch_us, "bytes_per_us": 65536.0, "resolution_us": 0.5}
    result = tune(kernel("default", 5 * US), kernel("fast", 3 * US), card=card, cold_b=cold)
    assert result["winner"].kernel == "fast"
    assert result["default_ms"] == pytest.approx(5 * US, abs=0.5 * US)
    assert result["winner_ms"] == pytest.approx(3 * US, abs=0.5 * US)


def test_a_card_that_runs_everything_at_once_is_measured_too() -> None:
    result = tune(kernel("default", 0.2), kernel("fast", 0.1), card={"at_once": True}, cold_b=True)
    assert result["winner"].kernel == "fast"
    assert result["after"]["filled_bytes"] < 3e9  # no more and more work to hide launches behind


def test_a_first_launch_is_not_in_the_time() -> None:
    # The runtime loads code then.
    result = tune(kernel("default", 20 * US), kernel("fast", 15 * US, first_ms=3.0))
    assert result["winner"].kernel == "fast"
    assert result["winner_ms"] == pytest.approx(15 * US, rel=0.05)


def test_small_kernels_are_timed_in_batches() -> None:
    result = tune(kernel("default", 2 * US), kernel("fast", 1.5 * US))
    assert result["winner"].kernel == "fast"
    assert result["calls"][0][1] >= 25 * len(result["samples"]["sim0:fast"])


def at_card_speed(*kernels: dict[str, Any], max_tuning_ms: float) -> dict[str, Any]:
    return tune(*kernels, max_tuning_ms=max_tuning_ms, card={"query_us": 20.0})


@pytest.mark.parametrize(("noise", "spikes"), [(0.02, 0.0), (0.1, 0.1), (0.3, 0.0), (0.3, 0.05)])
def test_equal_kernels_keep_the_default(noise: float, spikes: float) -> None:
    assert switches(40, [1.0, 1.0], noise, tuner=at_card_speed, spikes=spikes) <= 1


def test_many_equal_kernels_keep_the_default() -> None:
    assert switches(40, [0.1] * 5, 0.2, tuner=at_card_speed, budget=300.0) <= 1


@pytest.mark.parametrize(("noise", "spikes"), [(0.02, 0.0), (0.1, 0.1), (0.3, 0.0)])
def test_a_ten_percent_faster_kernel_is_found(noise: float, spikes: float) -> None:
    assert switches(40, [1.0, 0.9], noise, tuner=at_card_speed, spikes=spikes) >= 37


# ---- the budget ---------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.floats(0.002, 20.0), min_size=1, max_size=6),
    budget=st.floats(0.5, 200.0),
    noise=st.sampled_from([0.0, 0.3]),
    scope_all=st.booleans(),
    cold=st.booleans(),
    prepare_ms=st.sampled_from([0.0, 0.5]),
    others=st.integers(0, 200),
)
def test_the_budget_is_overrun_by_one_sample_at_most(
    times: list[float],
    budget: float,
    noise: float,
    scope_all: bool,
    cold: bool,
    prepare_ms: float,
    others: int,
) -> None:
    kernels = [kernel(f"k{i}", ms, noise=noise, seed=i) for i, ms in enumerate(times)]
    kernels += [found(f"x{i}", 0.5 + 0.01 * i) for i in range(others)]
    result = tune(*kernels, max_tuning_ms=budget, scope_all=scope_all, cold_b=cold, prepare_ms=prepare_ms)
    slowest = max([*times, 2.5]) * np.exp(5 * noise)
    listed = prepare_ms * len(times)
    # First call, probe, and what a sample has beside its call; listed kernels are all prepared first.
    assert result["wall_ms"] <= budget + 3 * slowest + listed + 1.0


def test_a_default_that_fills_the_budget_is_not_raced() -> None:
    result = tune(kernel("default", 50.0), kernel("fast", 1.0), max_tuning_ms=100.0)
    assert result["winner"].kernel == "default"
    assert result["calls"][0][1] == 0
    assert "one call of it takes 50 ms" in result["why"]
    assert result["budget_ms"] == 100.0


def test_what_is_queued_before_costs_none_of_the_budget() -> None:
    kernels = kernel("default", 20 * US), kernel("fast", 15 * US)
    result = tune(*kernels, card={"busy_ms": 500.0}, max_tuning_ms=50.0)
    assert result["winner"].kernel == "fast"
    assert result["wall_ms"] > 500.0
    assert result["spent_ms"] < 51.0


def test_hopeless_kernels_are_called_a_few_times_only() -> None:
    result = tune(kernel("default", 20 * US), kernel("hopeless", 900 * US), kernel("slow", 35 * US))
    assert result["calls"][0][1] <= 5
    assert result["calls"][0][2] <= 25
    assert result["rejected"] == {}


# ---- graphs, memory -----------------------------------------------------------------------------


def test_nothing_is_done_while_a_graph_is_captured() -> None:
    result = tune(kernel("default", 20 * US), kernel("fast", 15 * US), card={"capturing": True})
    assert result["winner"].kernel == "default"
    assert result["has_plan"]
    assert result["why"] == "the default, unmeasured: a graph is being captured"
    assert 0.0 < result["budget_ms"] < 0.01  # it will be measured another time
    assert result["calls"] == [[0, 0]]
    assert result["after"] == result["before"]


@pytest.mark.parametrize("first", range(1, 9))
@pytest.mark.parametrize("verify", [True, False])
def test_memory_that_fails_is_never_an_error(first: int, verify: bool) -> None:
    kernels = kernel("default", 20 * US), kernel("fast", 15 * US)
    result = tune(*kernels, card={"fail_allocation": first}, verify=verify, cold_b=True)
    assert gave_everything_back(result)
    measured = result["winner_ms"] > 0.0
    if measured:
        assert result["winner"].kernel == "fast"
    else:
        assert result["winner"].kernel == "default"
        assert "unmeasured" in result["why"]
        assert "memory" in result["why"]
    # With the scratch and its image there is enough.
    assert measured == (first >= 2)


def test_page_locked_memory_is_not_needed() -> None:
    result = tune(kernel("default", 20 * US), kernel("fast", 15 * US), card={"no_pinned": True})
    assert result["winner"].kernel == "fast"


def test_a_smaller_workspace_leaves_out_who_needs_more() -> None:
    kernels = kernel("default", 20 * US), kernel("large", 10 * US, workspace_bytes=1 << 20)
    result = tune(*kernels, workspace_bytes=1 << 20)
    assert result["winner"].kernel == "large"
    # The session's takes half of this.
    result = tune(*kernels, workspace_bytes=1 << 20, card={"memory_bytes": (1 << 21) - (1 << 17)})
    assert result["winner"].kernel == "default"
    assert result["rejected"]["sim0:large"].startswith("needs a workspace of 1048576 bytes, there are 524288")


def test_the_ceiling_holds() -> None:
    problem = make_problem(200, 300, 100)
    ceiling = 4 << 20
    kernels = kernel("default", 20 * US), kernel("fast", 15 * US)
    options: dict[str, Any] = {"problem": problem, "cold_b": True, "workspace_bytes": 0}
    result = tune(*kernels, **options, max_scratch_bytes=ceiling)
    assert result["winner"].kernel == "fast"
    assert result["after"]["most_allocated"] - result["before"]["allocated"] <= ceiling
    # But for what overwrites a large cache of a card with a large memory.
    for memory, cold in ((1 << 30, True), (1 << 28, False)):
        card = {"cache_bytes": 6 << 20, "memory_bytes": memory}
        assert tune(*kernels, **options, max_scratch_bytes=ceiling, card=card)["cold"] == cold
    result = tune(*kernels, problem=problem, max_scratch_bytes=100_000)
    assert result["winner"].kernel == "default"
    assert "more than the ceiling of 100000 bytes" in result["why"]


# ---- hangs, lost cards --------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 2, 6, 30])
@pytest.mark.parametrize("who", [0, 1])
def test_a_kernel_that_hangs_is_denied_and_left_alone(after: int, who: int) -> None:
    names = [f"hang-{after}-{who}-{i}" for i in range(2)]
    kernels = [kernel(names[0], 20 * US), kernel(names[1], 15 * US)]
    kernels[who].update(defect="hangs", after=after)
    result = tune(*kernels, hang_ms=20.0, remember_wrong=True, cold_b=True)
    assert result["status"] == "internal error"
    assert f"sim0:{names[who]}: did not end within 0.02 s: abandoned" in result["message"]
    assert result["wall_ms"] <= 100.0 + 20.0 + 1.0
    # Nothing waits for it, and nothing that it may use is freed.
    assert result["after"]["freed_while_hung"] == 0
    assert result["after"]["given_up"] == 1
    assert result["after"]["waited_while_hung"] == 0
    assert result["after"]["streams"] == 2
    denied = {name: reason for name, _, reason in native.denials()}
    assert "did not end" in denied[f"sim0:{names[who]}"]
    assert f"sim0:{names[1 - who]}" not in denied
    again = tune(*kernels, remember_wrong=True)
    assert again["winner"].kernel == names[1 - who]
    assert again["calls"][0][who] == 0


def test_a_large_product_may_take_longer_than_what_hangs() -> None:
    # On a card that is slow in fp64 (a 64th of its speed in fp32), seconds.
    kernels = kernel("default", 50 * US), kernel("fast", 40 * US)
    result = tune(*kernels, problem=make_problem(128, 128, 128), hang_ms=0.02, max_tuning_ms=20.0)
    assert result["winner"].kernel == "fast"
    # With as little to do it would be hanging.
    result = tune(*kernels, problem=make_problem(16, 16, 16), hang_ms=0.02, max_tuning_ms=3.0)
    assert "did not end" in result["message"]


def test_a_session_that_does_not_come_to_an_end_is_not_waited_for() -> None:
    kernels = kernel("default", 20 * US), kernel("fast", 15 * US)
    result = tune(*kernels, card={"busy_ms": 5000.0}, hang_ms=20.0)
    assert result["winner"].kernel == "default"
    assert "what was queued before did not end within 20 ms" in result["why"]
    assert result["wall_ms"] < 21.0
    assert result["calls"] == [[0, 0]]
    assert gave_everything_back(result)


@pytest.mark.parametrize("after", [0, 4, 40])
@pytest.mark.parametrize("who", [0, 1])
def test_a_lost_card_ends_everything(after: int, who: int) -> None:
    names = [f"lost-{after}-{who}-{i}" for i in range(2)]
    kernels = [kernel(names[0], 20 * US), kernel(names[1], 15 * US)]
    kernels[who].update(defect="loses_card", after=after)
    result = tune(*kernels, remember_wrong=True)
    assert result["status"] == "internal error"
    assert "an illegal memory access was encountered" in result["message"]
    # A default without which a session has nothing is not blamed: it may have been anybody.
    denied = {name for name, _, _ in native.denials()}
    assert (f"sim0:{names[who]}" in denied) == (who == 1)


# ---- journal, pacer -----------------------------------------------------------------------------


def test_every_call_is_in_the_journal_under_its_name() -> None:
    result = tune(*LISTED, *VALLEY)
    depth = 0
    entered = set()
    for line in result["journal"]:
        word, *names = line.split()
        depth += {"begin": 1, "enter": 1, "leave": -1, "end": -1}[word]
        assert 0 <= depth <= 2
        if word == "enter":
            entered.add(names[0])
    assert depth == 0
    called = {
        f"sim0:{spec['name']}"
        for spec, calls in zip([*LISTED, *VALLEY], result["calls"][0], strict=True)
        if calls > 0
    }
    assert entered == called


@pytest.mark.parametrize("turns", [0, 1, 5, 12, 40])
def test_it_gives_up_when_told_to(turns: int) -> None:
    result = tune(kernel("default", 20 * US), kernel("fast", 15 * US), pacer={"cancel_after": turns})
    assert result["status"] == "cancelled"
    assert gave_everything_back(result)
