"""The election: equal kernels keep the default, faster ones are found, by the hundred and repeatably."""

from __future__ import annotations

import numpy as np
import pytest
import tunableop_native_tests as native
from tuning_helpers import kernel, switches, tune


@pytest.mark.parametrize(("noise", "spikes"), [(0.02, 0.0), (0.1, 0.1), (0.3, 0.0), (0.3, 0.05), (0.5, 0.05)])
def test_equal_kernels_keep_the_default(noise: float, spikes: float) -> None:
    assert switches(100, [1.0, 1.0], noise, spikes=spikes) <= 1


def test_many_equal_kernels_keep_the_default() -> None:
    assert switches(100, [1.0] * 5, 0.3) <= 1


@pytest.mark.parametrize("budget", [10.0, 20.0, 40.0])
def test_few_rounds_keep_the_default_too(budget: float) -> None:
    assert switches(100, [1.0, 1.0], 0.2, budget=budget) <= 1


@pytest.mark.parametrize(("noise", "spikes"), [(0.02, 0.0), (0.1, 0.1), (0.3, 0.0), (0.3, 0.05)])
def test_a_ten_percent_faster_kernel_is_found(noise: float, spikes: float) -> None:
    assert switches(100, [1.0, 0.9], noise, spikes=spikes) >= 95


def test_a_clear_case_is_found_in_a_few_rounds() -> None:
    # A large problem: the budget holds about six rounds.
    assert switches(100, [8.0, 6.0], 0.02, budget=100.0) >= 95


def test_slower_kernels_never_win() -> None:
    assert switches(100, [1.0, 1.03, 1.1], 0.3) == 0


def test_the_same_seeds_give_the_same_election() -> None:
    kernels = kernel("default", noise=0.3, seed=1), kernel("fast", 0.9, noise=0.3, seed=2)
    first = tune(*kernels)
    assert all(tune(*kernels)["samples"] == first["samples"] for _ in range(3))


def test_chance_of_luck() -> None:
    random = np.random.default_rng(0)
    base = np.exp(0.1 * random.standard_normal(200))
    assert native.chance_of_luck(0.8 * base, base) < 1e-6
    assert native.chance_of_luck(base, 0.8 * base) > 0.999
    assert native.chance_of_luck(0.8 * base, base, 0.8) == 1.0  # no difference is left
    assert native.chance_of_luck([1.0, 1.0], [2.0, 2.0]) == 1.0
    assert native.chance_of_luck([1.0, 1.01, 0.99], [2.0, 2.01, 1.99]) < 1e-3
    # What it gives for equal kernels is evenly spread: 5 % of them below 0.05.
    for size in (5, 30):
        pairs = np.exp(0.3 * random.standard_normal((2000, 2, size)))
        chances = np.array([native.chance_of_luck(x, y) for x, y in pairs])
        assert 0.02 <= np.mean(chances < 0.05) <= 0.08


def test_few_turns_are_won_by_the_slowest_of_them() -> None:
    assert native.wins_every_turn([0.9, 0.97], [1.0, 1.1], 0.03)
    assert not native.wins_every_turn([0.9, 0.98], [1.0, 1.1], 0.03)
    assert not native.wins_every_turn([], [1.0], 0.03)
    assert not native.wins_every_turn([1.0], [], 0.03)
    assert not native.wins_every_turn([0.0, 0.0], [1.0, 1.0], 0.03)  # lost in the cost of a call


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_equal_ones_rarely_win_three_turns(noise: float) -> None:
    """As the stock provider's kernel is raced with several threads: on a busy machine nearly by chance."""
    random = np.random.default_rng(1)
    turns = np.exp(random.normal(0.0, noise, (4000, 6)))
    won = sum(native.wins_every_turn(list(row[:3]), list(row[3:]), 0.03) for row in turns)
    assert won / len(turns) <= 0.06  # 1 / 20, and less with the margin
