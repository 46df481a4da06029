"""Measuring beside requests: what served before, who only watches, who is told and who may interrupt."""

from __future__ import annotations

from typing import Any

import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import kernel, make_problem, tune


def served(name: str) -> native.Candidate:
    return native.Candidate(*name.split(":"))


# ---- what served before -------------------------------------------------------------------------


def test_what_served_stays_below_min_gain() -> None:
    kernels = [kernel("default", 2.0), kernel("a", 1.0), kernel("b", 0.98), kernel("c", 0.99)]
    result = tune(*kernels, incumbent=served("sim0:a"))
    assert result["winner"].kernel == "a"
    assert result["why"].startswith("what served: no candidate is faster by 3.0 %")
    assert result["default"].kernel == "default"
    assert result["default_ms"] == pytest.approx(2.0)
    assert result["winner_ms"] == pytest.approx(1.0)
    # Of those within 3 % of each other, none unseats the other, whichever serves.
    assert tune(*kernels, incumbent=served("sim0:b"))["winner"].kernel == "b"
    assert tune(*kernels, incumbent=served("sim0:c"))["winner"].kernel == "c"


def test_what_served_loses_to_what_is_faster() -> None:
    kernels = [kernel("default", 2.0), kernel("a", 1.0), kernel("b", 0.8)]
    result = tune(*kernels, incumbent=served("sim0:a"))
    assert result["winner"].kernel == "b"
    assert result["why"] == "20.0 % faster than what served"
    result = tune(kernel("default", 0.7), kernel("a"), incumbent=served("sim0:a"))
    assert result["winner"].kernel == "default"
    assert result["why"] == "30.0 % faster than what served"
    assert result["default_ms"] == pytest.approx(0.7)


def test_the_default_races_though_it_is_slower() -> None:
    kernels = [kernel("default", 2.5), kernel("a"), kernel("slow", 1.6)]
    result = tune(*kernels, incumbent=served("sim0:a"), max_tuning_ms=200.0)
    assert len(result["samples"]["sim0:default"]) >= 24
    assert len(result["samples"]["sim0:slow"]) <= 4
    assert result["default_ms"] == pytest.approx(2.5)


def test_a_default_out_of_all_proportion_only_shows_its_time() -> None:
    result = tune(kernel("default", 40.0), kernel("a"), kernel("b", 0.9), incumbent=served("sim0:a"))
    assert result["winner"].kernel == "b"
    assert result["default_ms"] == pytest.approx(40.0)
    assert result["calls"][0][0] == 1


def test_what_served_need_not_be_among_the_candidates() -> None:
    kernels = [kernel(f"k{i}", 1.0) for i in range(8)] + [kernel("last", 0.9)]
    result = tune(*kernels, incumbent=served("sim0:last"))
    assert result["winner"].kernel == "last"
    assert result["default"].kernel == "k0"


@pytest.mark.parametrize("gone", ["sim0:gone", "elsewhere:a"])
def test_what_served_and_is_gone_leaves_the_default(gone: str) -> None:
    result = tune(kernel("default"), kernel("b", 0.98), incumbent=served(gone))
    assert result["winner"].kernel == "default"
    assert "cannot be prepared" in result["rejected"][gone]


@pytest.mark.parametrize("defect", ["last_row", "error", "one_element"])
def test_what_served_and_is_wrong_loses(defect: str) -> None:
    kernels = [kernel("default"), kernel("a", 0.5, defect=defect), kernel("b", 0.7)]
    result = tune(*kernels, incumbent=served("sim0:a"))
    assert result["winner"].kernel == "b"
    assert list(result["rejected"]) == ["sim0:a"]
    assert result["why"] == "what served is wrong or fails: 30.0 % faster than the default"


def test_a_wrong_default_beside_what_served() -> None:
    kernels = [kernel("default", defect="last_row"), kernel("a", 0.5), kernel("b", 0.49)]
    result = tune(*kernels, incumbent=served("sim0:a"))
    assert result["winner"].kernel == "a"
    assert list(result["rejected"]) == ["sim0:default"]


def test_what_served_is_kept_where_nothing_can_be_measured() -> None:
    kernels = [kernel("default", 80.0), kernel("a", 40.0), kernel("b", 1.0)]
    result = tune(*kernels, incumbent=served("sim0:a"), max_tuning_ms=100.0)
    assert result["winner"].kernel == "a"
    assert "what served: one call of it takes 40 ms" in result["why"]
    assert result["budget_ms"] == 100.0
    assert result["default_ms"] == pytest.approx(80.0)
    result = tune(*kernels, incumbent=served("sim0:a"), max_scratch_bytes=100)
    assert result["winner"].kernel == "a"
    assert "what served, unmeasured" in result["why"]


def test_measuring_again_does_not_flap() -> None:
    # Ten measurements, each with the last one's winner serving.
    serving = None
    winners = set()
    for i in range(10):
        kernels = [kernel(f"k{j}", 1.0 - 0.01 * (j > 0), noise=0.1, seed=10 * i + j) for j in range(4)]
        result = tune(*kernels, incumbent=serving, max_tuning_ms=3000.0)
        serving = result["winner"]
        winners.add(serving.kernel)
    assert winners == {"k0"}


# ---- the spectator ------------------------------------------------------------------------------


def test_a_faster_spectator_is_told_but_not_elected() -> None:
    result = tune(kernel("default"), kernel("fast", 0.9), spectator=[kernel("x", 0.5)])
    assert result["winner"].full_name == "sim0:fast"
    assert result["spectator_wins"]
    assert result["spectator_ms"] == pytest.approx(0.5)
    assert result["spectator_note"] == ""
    assert len(result["samples"]["stock:x"]) >= 24
    assert result["tried"] == 2


@pytest.mark.parametrize("ms", [0.89, 0.9, 1.2])
def test_a_spectator_that_is_not_clearly_faster_does_not_win(ms: float) -> None:
    result = tune(kernel("default"), kernel("fast", 0.9), spectator=[kernel("x", ms)])
    assert not result["spectator_wins"]
    assert result["spectator_ms"] == pytest.approx(ms)


def test_a_spectator_runs_even_when_nobody_else_does() -> None:
    result = tune(kernel("default"), spectator=[kernel("x", 0.5)], verify=False)
    assert result["spectator_wins"]
    assert "no other candidate" in result["why"]
    assert len(result["samples"]["stock:x"]) == len(result["samples"]["sim0:default"]) == 24


def test_a_spectator_does_not_change_the_election() -> None:
    for seed in range(20):
        kernels = [kernel(f"k{i}", 1.0 - 0.04 * i, noise=0.1, seed=10 * seed + i) for i in range(3)]
        alone = tune(*kernels, max_tuning_ms=2000.0)
        watched = tune(*kernels, max_tuning_ms=4000.0, spectator=[kernel("x", 0.5, noise=0.1)])
        assert watched["winner"].kernel == alone["winner"].kernel


@pytest.mark.parametrize(("ms", "wins"), [(1.0, 0), (0.85, 20)])
def test_a_spectator_wins_beyond_chance_only(ms: float, wins: int) -> None:
    count = 0
    for seed in range(20):
        default, watching = (
            kernel("default", noise=0.2, seed=seed),
            kernel("x", ms, noise=0.2, seed=seed + 99),
        )
        result = tune(default, spectator=[watching], max_tuning_ms=3000.0)
        count += result["spectator_wins"]
    assert abs(count - wins) <= 1


@pytest.mark.parametrize("defect", ["last_row", "error"])
@pytest.mark.parametrize("after", [0, 20])
def test_a_wrong_spectator_is_told_and_never_denied(defect: str, after: int) -> None:
    for _ in range(2):
        watching = kernel(f"wrong-{defect}", 0.5, defect=defect, after=after)
        result = tune(kernel("default"), spectator=[watching], remember_wrong=True)
        assert not result["spectator_wins"]
        assert ("returned an error" if defect == "error" else "wrong answer") in result["spectator_note"]
        assert result["rejected"] == {}
        assert result["calls"][1] != [0]


@pytest.mark.parametrize("watching", [[], [kernel("x", defect="unprepared")]])
def test_a_spectator_that_cannot_run_is_no_error(watching: list[dict[str, Any]]) -> None:
    result = tune(kernel("default"), kernel("fast", 0.5), spectator=watching)
    assert result["winner"].kernel == "fast"
    assert result["spectator_note"] != ""
    assert result["spectator_ms"] == 0.0
    assert not result["spectator_wins"]


def test_a_hopelessly_slow_spectator_does_not_race() -> None:
    result = tune(kernel("default"), kernel("fast", 0.5), spectator=[kernel("x", 5.0)])
    assert result["winner"].kernel == "fast"
    assert "more than 3 times" in result["spectator_note"]
    assert result["spectator_ms"] == pytest.approx(5.0)


# ---- the journal --------------------------------------------------------------------------------


def test_the_journal_knows_each_call() -> None:
    kernels = [kernel("default", 0.001), kernel("fast", 0.0008), kernel("wrong", 0.1, defect="last_row")]
    result = tune(*kernels, spectator=[kernel("x", 0.001)])
    lines = result["journal"]
    assert lines[0] == "begin sim0:default sim0:fast sim0:wrong stock:x"
    assert lines[-1] == "end"
    assert lines[1:-1:2] != []
    assert all(line.startswith("enter ") for line in lines[1:-1:2])
    assert set(lines[2:-1:2]) == {"leave"}
    assert {line.split()[1] for line in lines[1:-1:2]} == {
        "sim0:default",
        "sim0:fast",
        "sim0:wrong",
        "stock:x",
    }
    # In the race, once for a sample of 20 calls and more.
    assert 0 < lines.count("enter sim0:fast") < result["calls"][0][1] / 4


def test_the_journal_is_closed_when_a_call_fails() -> None:
    result = tune(kernel("default"), kernel("fails", 0.5, defect="error", after=12))
    assert result["journal"].count("leave") == sum(line.startswith("enter") for line in result["journal"])
    assert result["journal"][-1] == "end"


# ---- the pacer ----------------------------------------------------------------------------------


def test_waiting_costs_no_budget() -> None:
    kernels = kernel("default"), kernel("fast", 0.8)
    plain = tune(*kernels, max_tuning_ms=60.0)
    paced = tune(*kernels, max_tuning_ms=60.0, pacer={"wait_ms": 500.0})
    assert paced["samples"] == plain["samples"]
    assert paced["spent_ms"] == pytest.approx(plain["spent_ms"])
    assert paced["turns"] >= paced["journal"].count("leave")


def test_each_sample_waits_for_its_turn_once() -> None:
    result = tune(kernel("default", 0.001), kernel("fast", 0.0008), pacer={}, verify=False)
    assert result["turns"] == result["journal"].count("leave")


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 7, 20, 60])
def test_a_measurement_is_given_up_at_once(turns: int) -> None:
    name = f"given-up-{turns}"
    kernels = [kernel(name, 1.0), kernel(f"{name}-wrong", 0.9, defect="one_element")]
    with pytest.raises(RuntimeError, match="measuring was given up"):
        tune(*kernels, kernel("fast", 0.9), pacer={"cancel_after": turns}, remember_wrong=True)
    # Nothing was denied, not even what was seen to be wrong.
    again = tune(*kernels, remember_wrong=True)
    assert again["rejected"][f"sim0:{name}-wrong"].startswith("wrong answer")


def test_disturbed_samples_are_taken_again() -> None:
    kernels = kernel("default"), kernel("fast", 0.9)
    result = tune(*kernels, pacer={"disturbed_every": 3}, max_tuning_ms=3000.0)
    assert result["winner"].kernel == "fast"
    assert max(result["samples"]["sim0:fast"]) == pytest.approx(0.9)
    assert max(result["samples"]["sim0:default"]) == pytest.approx(1.0)


def test_samples_that_are_always_disturbed_count_after_three_more() -> None:
    kernels = kernel("default"), kernel("fast", 0.9)
    result = tune(*kernels, pacer={"disturbed_every": 1, "disturbance": 2.0}, max_tuning_ms=3000.0)
    assert result["winner"].kernel == "fast"
    assert min(result["samples"]["sim0:fast"]) == pytest.approx(1.8)
    rounds = len(result["samples"]["sim0:fast"])
    assert 4 * rounds <= result["calls"][0][1] <= 4 * rounds + 30


# ---- the budget, with all of it -----------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.floats(0.001, 60.0), min_size=1, max_size=5),
    watching=st.floats(0.001, 300.0),
    serving=st.integers(0, 4),
    budget=st.floats(0.1, 200.0),
    noise=st.sampled_from([0.0, 0.3]),
    later=st.sampled_from([1.0, 50.0]),
    disturbed=st.sampled_from([0, 1, 2]),
)
def test_the_budget_is_overrun_by_one_call_at_most(
    times: list[float],
    watching: float,
    serving: int,
    budget: float,
    noise: float,
    later: float,
    disturbed: int,
) -> None:
    kernels = [
        kernel(f"k{i}", ms, noise=noise, seed=i, later_factor=later, after=10) for i, ms in enumerate(times)
    ]
    result = tune(
        *kernels,
        incumbent=served(f"sim0:k{serving % len(times)}"),
        spectator=[kernel("x", watching, noise=noise, seed=9)],
        pacer={"wait_ms": 10.0, "disturbed_every": disturbed, "disturbance": 2.0},
        max_tuning_ms=budget,
    )
    slowest_call = 2.0 * max(*times, watching) * later * 2.718 ** (5 * noise)
    assert result["spent_ms"] <= budget + slowest_call


@pytest.mark.parametrize("ms", [200.0, 5000.0])
def test_very_slow_candidates_cost_one_call(ms: float) -> None:
    # Of all that fill the budget alone, one call is made.
    problem = make_problem(40, 20, 10)
    result = tune(kernel("default"), *[kernel(f"slow{i}", ms) for i in range(4)], problem=problem)
    assert sum(result["calls"][0][1:]) == 1
    assert result["spent_ms"] <= 100.0 + ms
