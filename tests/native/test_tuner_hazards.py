"""What may go wrong around a measurement: kernels that hang, operands that change, builds that differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tunableop_native_tests as native
from tuning_helpers import kernel, make_operands, make_problem, tune


@pytest.fixture
def gate() -> Iterator[None]:
    """Lets all hanging calls go in the end."""
    yield
    native.release_hanging()


# ---- hangs --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("gate")
def test_kernels_that_hang_are_abandoned_four_times_and_no_more() -> None:
    # One test, in this order: what was abandoned is counted for the life of the process.
    kernels = [kernel("default"), kernel("hangs-0", 0.5, defect="hangs"), kernel("fast", 0.8)]
    options: dict[str, Any] = {"may_hang": True, "hang_ms": 50.0, "remember_wrong": True}
    operands = make_operands(make_problem(6, 20, 10, ldc=23))
    # Those that may hang and do not race like any other.
    assert tune(kernel("default"), kernel("fast", 0.8), **options)["winner"].kernel == "fast"
    before = {name: array.copy() for name, array in operands.items()}
    result = tune(*kernels, operands=operands, **options)
    assert result["winner"].kernel == "fast"
    assert result["rejected"] == {"sim0:hangs-0": "did not return within 0.05 s: abandoned"}
    assert native.hanging() == 1
    for name, array in operands.items():
        np.testing.assert_array_equal(array, before[name])
    # Its call is in the journal, and closed.
    lines = result["journal"]
    assert lines[lines.index("enter sim0:hangs-0") + 1] == "leave"
    # Nobody calls it again.
    result = tune(*kernels, **options)
    assert result["rejected"]["sim0:hangs-0"].startswith("denied: did not return")
    assert result["calls"][0][1] == 0
    # Even a default.
    more = [kernel(f"hangs-{i}", defect="hangs") for i in range(1, 5)]
    result = tune(*more[:2], kernel("right"), *more[2:], **options)
    assert result["winner"].kernel == "right"
    assert native.hanging() == 4
    assert "4 calls that did were abandoned" in result["rejected"]["sim0:hangs-4"]
    # From now on, nothing that may hang is called; what may not is.
    with pytest.raises(RuntimeError, match="were abandoned in this process already"):
        tune(kernel("innocent"), **options)
    assert tune(kernel("innocent"))["winner"].kernel == "innocent"
    native.release_hanging()
    assert native.hanging() == 0


# ---- operands that change ------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 3, 20])
def test_when_operands_change_nobody_is_blamed(after: int) -> None:
    name = f"overwritten-{after}"
    kernels = [kernel(name), kernel(f"{name}-other", 0.5), kernel(f"{name}-writer", 0.9)]
    kernels[2].update(defect="overwrites_a", after=after)
    result = tune(*kernels, remember_wrong=True, max_tuning_ms=90.0)
    assert result["winner"].kernel == name
    assert result["why"] == "the default, unmeasured: the operands changed while measuring"
    assert result["winner_ms"] == 0.0
    assert result["has_plan"]
    assert result["rejected"] == {}
    # It will be measured again, by whoever has any budget.
    assert 0.0 < result["budget_ms"] < 0.01
    assert not any(name in denied for denied, _, _ in native.denials())


def test_when_operands_change_what_served_goes_on() -> None:
    kernels = [kernel("default"), kernel("serving", 0.5), kernel("writer", 0.9, defect="overwrites_a")]
    result = tune(*kernels, incumbent=native.Candidate("sim0", "serving"))
    assert result["winner"].kernel == "serving"
    assert result["why"].startswith("what served, unmeasured")


def test_a_change_in_large_operands_is_noticed() -> None:
    problem = make_problem(200, 30, 300)
    kernels = [kernel("default"), kernel("writer", 0.9, defect="overwrites_a", after=5)]
    assert "operands changed" in tune(*kernels, problem=problem)["why"]


# ---- the deny list ------------------------------------------------------------------------------


def test_a_denial_holds_for_one_build_of_a_library() -> None:
    kernels = [kernel("builds-default"), kernel("builds-fast", 0.5)]
    native.deny(native.Candidate("sim0", "builds-fast"), "another build", "wrong then")
    assert tune(*kernels, remember_wrong=True)["winner"].kernel == "builds-fast"
    native.deny(native.Candidate("sim0", "builds-fast"), "simulated", "wrong now")
    result = tune(*kernels, remember_wrong=True)
    assert result["winner"].kernel == "builds-default"
    assert result["rejected"]["sim0:builds-fast"] == "denied: wrong now"
    mine = [d for d in native.denials() if d[0] == "sim0:builds-fast"]
    assert mine == [
        ("sim0:builds-fast", "another build", "wrong then"),
        ("sim0:builds-fast", "simulated", "wrong now"),
    ]


# ---- what a sample of rows misses ---------------------------------------------------------------


def test_what_sampled_rows_miss_is_as_rare_as_stated() -> None:
    # Without memory for a copy of the right answer only the reference's rows are compared: with r of
    # them drawn at random from m, w wrong rows go unseen with probability (1 - w / m) ** r, about.
    m, n, k = 4000, 16, 32
    problem = make_problem(m, n, k)
    operands = make_operands(problem)
    scratch = 4 * m * n + 2 * 512 + 64  # the copy of C alone
    budget = 2.0  # 2e5 multiplications: 390 rows, 4 of them fixed
    rows, wrong, trials = 2e5 / (n * k) - 4, 10, 40
    missed = 0
    for seed in range(trials):
        kernels = [
            kernel("default", 0.45),
            kernel("wrong", 0.3, defect="some_rows", wrong_rows=wrong, seed=seed),
        ]
        result = tune(
            *kernels,
            problem=problem,
            operands=operands,
            max_tuning_ms=budget,
            max_scratch_bytes=scratch,
        )
        missed += "sim0:wrong" not in result["rejected"]
    bound = (1 - wrong / m) ** rows
    assert 0.3 < bound < 0.5
    spread = (bound * (1 - bound) / trials) ** 0.5
    assert abs(missed / trials - bound) < 4 * spread
    # With the copy, all elements are compared, and none is missed.
    kernels[1]["wrong_rows"] = 1
    result = tune(*kernels, problem=problem, operands=operands, max_tuning_ms=budget)
    assert "sim0:wrong" in result["rejected"]
