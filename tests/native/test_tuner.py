"""The tuner: who may race, who may win, what is noticed, what it costs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import tunableop_native_tests as native
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_helpers import kernel, make_operands, make_problem, pack_b, tune

# ---- who wins -----------------------------------------------------------------------------------


def test_a_clearly_faster_kernel_wins() -> None:
    result = tune(kernel("default"), kernel("fast", 0.8), kernel("slow", 1.2))
    assert result["winner"].full_name == "sim0:fast"
    assert result["default"].full_name == "sim0:default"
    assert result["winner_ms"] == pytest.approx(0.8)
    assert result["default_ms"] == pytest.approx(1.0)
    assert "20.0 % faster" in result["why"]
    assert result["has_plan"]
    assert result["tried"] == 3
    assert 0.0 <= result["error"] <= 1.0
    assert not result["rejected"]


def test_the_default_stays_below_min_gain() -> None:
    kernels = kernel("default"), kernel("faster", 0.95)
    assert tune(*kernels, min_gain=0.10)["winner"].kernel == "default"
    assert tune(*kernels, min_gain=0.03)["winner"].kernel == "faster"


def test_the_first_library_with_candidates_gives_the_default() -> None:
    result = tune(libraries=[[], [kernel("first")], [kernel("other", 0.5)]])
    assert result["default"].full_name == "sim1:first"
    assert result["winner"].full_name == "sim2:other"


def test_scope() -> None:
    kernels = [kernel(f"k{i}", 1.0) for i in range(8)] + [kernel("last", 0.5)]
    assert tune(*kernels)["winner"].kernel == "k0"
    assert tune(*kernels, scope_all=True)["winner"].kernel == "last"


def test_no_candidate_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="no library can run it"):
        tune(libraries=[[], []])
    with pytest.raises(NotImplementedError, match="simulated refusal"):
        tune(kernel("default", defect="unprepared"))


def test_a_kernel_that_cannot_be_prepared_is_only_left_out() -> None:
    result = tune(kernel("default"), kernel("refuses", 0.1, defect="unprepared"), kernel("fast", 0.5))
    assert result["winner"].kernel == "fast"
    assert result["rejected"] == {"sim0:refuses": "cannot be prepared: simulated refusal"}


@pytest.mark.parametrize("missing", ["a", "b", "bias", "c"])
def test_missing_operands_are_an_error(missing: str) -> None:
    problem = make_problem(4, 4, 4, epilogue=native.Epilogue.bias, beta=native.ScalarClass.one)
    operands = {**make_operands(problem), "beta": 1.0, missing: None}
    with pytest.raises(ValueError, match="expected a pointer to"):
        tune(kernel("default"), problem=problem, operands=operands)


# ---- right answers ------------------------------------------------------------------------------

DEFECTS = [
    "one_element", "last_row", "last_column", "unwritten", "gap", "past_end", "nan_if_negative",
    "error", "low_precision", "reads_poison",
]  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_kernel_never_wins(defect: str) -> None:
    result = tune(kernel("default"), kernel("wrong", 0.1, defect=defect), kernel("fast", 0.7))
    assert result["winner"].kernel == "fast"
    reason = result["rejected"]["sim0:wrong"]
    assert ("returned an error" if defect == "error" else "wrong answer") in reason


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_default_loses_whatever_the_gain(defect: str) -> None:
    result = tune(kernel("default", defect=defect), kernel("slow", 7.0), kernel("slower", 9.0))
    assert result["winner"].kernel == "slow"
    assert list(result["rejected"]) == ["sim0:default"]
    assert "default is wrong or fails" in result["why"]


def test_a_wrong_default_loses_even_to_what_the_budget_does_not_hold() -> None:
    result = tune(kernel("default", 90.0, defect="last_row"), kernel("slow", 80.0), max_tuning_ms=10)
    assert result["winner"].kernel == "slow"


def test_nobody_is_right() -> None:
    with pytest.raises(RuntimeError, match=r"every kernel is wrong or fails.*one wrong.*two returned"):
        tune(kernel("one", defect="last_row"), kernel("two", defect="error"))


def test_verification_can_be_switched_off() -> None:
    result = tune(kernel("default"), kernel("wrong", 0.5, defect="last_row"), verify=False)
    assert result["winner"].kernel == "wrong"
    assert result["error"] == 0.0


@pytest.mark.parametrize("defect", ["last_row", "error"])
def test_a_kernel_that_is_right_at_first_only_is_caught(defect: str) -> None:
    result = tune(kernel("default"), kernel("fickle", 0.5, defect=defect, after=20))
    assert result["winner"].kernel == "default"
    assert "sim0:fickle" in result["rejected"]


@pytest.mark.parametrize("defect", ["last_row", "error"])
@pytest.mark.parametrize("after", [1, 3, 7, 12, 25])
def test_a_default_that_fails_later_loses_to_what_still_works(defect: str, after: int) -> None:
    broken = {"defect": defect, "after": after}
    result = tune(kernel("default", **broken), kernel("slow", 1.2))
    assert result["winner"].kernel == "slow"
    assert list(result["rejected"]) == ["sim0:default"]
    with pytest.raises(RuntimeError, match="every kernel is wrong or fails"):
        tune(kernel("default", **broken), kernel("slow", 1.2, **broken))


@pytest.mark.parametrize(
    ("defect", "fields"),
    [
        ("ignores_alpha", {"alpha": 0.5}),
        ("ignores_beta", {"beta": 1.0}),
        ("ignores_beta", {"beta": -0.3}),
        ("ignores_bias", {}),
        ("unwritten", {"beta": 1.0}),
        ("unwritten", {"beta": 0.5}),
    ],
)
@pytest.mark.parametrize("epilogue", ["bias", "bias_relu", "bias_gelu"])
def test_scalars_and_epilogue_are_checked(defect: str, fields: dict[str, float], epilogue: str) -> None:
    problem = make_problem(9, 17, 12, epilogue=getattr(native.Epilogue, epilogue))
    operands = {**make_operands(problem), **fields}
    result = tune(kernel("default"), kernel("wrong", 0.5, defect=defect), problem=problem, operands=operands)
    assert result["winner"].kernel == "default"
    assert "wrong answer" in result["rejected"]["sim0:wrong"]


def test_large_problems_are_checked_everywhere() -> None:
    # Far more rows than the reference computes: one wrong element in the middle is seen all the same.
    problem = make_problem(3000, 129, 130)
    result = tune(
        kernel("default"), kernel("wrong", 0.5, defect="one_element"), problem=problem, max_tuning_ms=20
    )
    assert "(verified) got" in result["rejected"]["sim0:wrong"]


def test_a_wrong_default_is_caught_in_the_last_row_of_the_last_batch_item() -> None:
    problem = make_problem(300, 64, 64, batch=10)
    result = tune(kernel("default", defect="last_row"), kernel("right"), problem=problem, max_tuning_ms=4)
    assert "batch item 9, row 299" in result["rejected"]["sim0:default"]


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 20),
    n=st.integers(1, 140),
    k=st.integers(1, 40),
    batch=st.integers(1, 3),
    trans_a=st.booleans(),
    b_kind=st.sampled_from(["plain", "transposed", "packed"]),
    share_b=st.booleans(),
    gaps=st.tuples(*[st.integers(0, 3)] * 4),
    epilogue=st.sampled_from(["none", "bias", "relu", "bias_relu", "gelu", "bias_gelu"]),
    alpha=st.sampled_from([1.0, 0.0, -0.7]),
    beta=st.sampled_from([0.0, 1.0, 0.3]),
    special=st.sampled_from([None, np.nan, np.inf, -np.inf, 3e38]),
    interleaved=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_right_kernels_are_never_rejected_and_c_is_never_written(
    m: int,
    n: int,
    k: int,
    batch: int,
    trans_a: bool,
    b_kind: str,
    share_b: bool,
    gaps: tuple[int, int, int, int],
    epilogue: str,
    alpha: float,
    beta: float,
    special: float | None,
    interleaved: bool,
    seed: int,
) -> None:
    layout: dict[str, int] = {"lda": (m if trans_a else k) + gaps[0], "ldc": n + gaps[1]}
    layout["stride_c"] = layout["ldc"] * m + gaps[2]
    if interleaved:  # the items of C are columns side by side
        layout["stride_c"] = n + gaps[1]
        layout["ldc"] = layout["stride_c"] * batch
    problem = make_problem(
        m,
        n,
        k,
        batch=batch,
        trans_a=trans_a,
        trans_b=b_kind == "transposed",
        epilogue=getattr(native.Epilogue, epilogue),
        **layout,
    )
    if not share_b and batch > 1:
        problem.stride_b = k * n + gaps[3]
    operands: dict[str, Any] = make_operands(problem, seed)
    if special is not None:
        random = np.random.default_rng(seed)
        for name in ("a", "b", "c", "bias")[: seed % 5]:
            operands[name][random.integers(operands[name].size)] = special
    if b_kind == "packed":
        items = 1 if share_b or batch == 1 else batch
        packed = [pack_b(operands["b"][i * problem.stride_b :][: k * n].reshape(k, n)) for i in range(items)]
        operands["b"] = np.concatenate(packed)
        problem.b_layout, problem.ldb = native.BLayout.packed, 0
        problem.stride_b = packed[0].size if items > 1 else 0
    before = operands["c"].copy()
    result = tune(
        kernel("default"),
        kernel("fast", 0.5),
        problem=problem,
        operands={**operands, "alpha": alpha, "beta": beta},
    )
    assert result["winner"].kernel == "fast"
    assert result["rejected"] == {}
    assert result["error"] <= 1.0
    np.testing.assert_array_equal(operands["c"], before)


@pytest.mark.parametrize("value", [0.1, 1.0, 0.7, 1 / 3])
@pytest.mark.parametrize("k", [64, 1000, 4096, 20000])
def test_operands_that_round_all_one_way_are_right(value: float, k: int) -> None:
    problem = make_problem(2, 3, k)
    operands = make_operands(problem)
    operands["a"][:] = value
    operands["b"][:] = value
    result = tune(kernel("default"), problem=problem, operands=operands)
    assert result["winner"].kernel == "default"
    assert result["error"] <= 1.0


@pytest.mark.parametrize("k", [64, 384, 768, 3072])
def test_bf16_inside_an_exact_kernel_is_noticed(k: int) -> None:
    problem = make_problem(8, 64, k)
    result = tune(kernel("default"), kernel("lossy", 0.5, defect="low_precision"), problem=problem)
    assert "sim0:lossy" in result["rejected"]
    problem.precision = native.Precision.bf16
    result = tune(kernel("default"), kernel("lossy", 0.5, defect="low_precision"), problem=problem)
    assert result["winner"].kernel == "lossy"


@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 0, 4), (4, 4, 0)])
def test_empty_problems(shape: tuple[int, int, int]) -> None:
    problem = make_problem(*shape)
    operands = {"a": None, "b": None}
    result = tune(kernel("default"), kernel("fast", 0.1), problem=problem, operands=operands)
    assert result["winner"].kernel == "default"
    assert result["calls"] == [[0, 0]]


def test_overlapping_batch_items_are_not_measured() -> None:
    result = tune(kernel("default"), kernel("fast", 0.1), problem=make_problem(4, 4, 4, batch=3, stride_c=0))
    assert result["winner"].kernel == "default"
    assert "overlap" in result["why"]


def test_too_little_scratch() -> None:
    result = tune(kernel("default"), kernel("fast", 0.1), max_scratch_bytes=1000)
    assert result["winner"].kernel == "default"
    assert result["winner_ms"] == 0.0
    assert "more than the ceiling of 1000 bytes" in result["why"]
    assert result["calls"] == [[0, 0]]


def test_a_large_c_is_not_checked_on_a_small_budget() -> None:
    result = tune(kernel("default"), kernel("fast", 0.1), problem=make_problem(600, 600, 2), max_tuning_ms=1)
    assert result["winner"].kernel == "default"
    assert result["calls"] == [[0, 0]]
    assert "does not pay for checking a C of 1406 KiB" in result["why"]


def test_probing_leaves_time_for_the_race() -> None:
    kernels = [kernel(f"k{i}", 1.0) for i in range(100)]
    result = tune(kernel("default", 1.0), kernel("fast", 0.7), *kernels, scope_all=True)
    assert result["winner"].kernel == "fast"


# ---- the budget ---------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.floats(0.001, 60.0), min_size=1, max_size=6),
    budget=st.floats(0.1, 200.0),
    noise=st.sampled_from([0.0, 0.3]),
    later=st.sampled_from([1.0, 50.0]),
)
def test_the_budget_is_overrun_by_one_call_at_most(
    times: list[float], budget: float, noise: float, later: float
) -> None:
    kernels = [
        kernel(f"k{i}", ms, noise=noise, seed=i, later_factor=later, after=10) for i, ms in enumerate(times)
    ]
    result = tune(*kernels, max_tuning_ms=budget, scope_all=True)
    slowest_call = max(times) * later * np.exp(5 * noise)
    assert result["spent_ms"] <= budget + slowest_call


def test_a_default_that_fills_the_budget_is_not_raced() -> None:
    result = tune(kernel("default", 50.0), kernel("fast", 1.0), max_tuning_ms=100)
    assert result["winner"].kernel == "default"
    assert result["calls"] == [[2, 0]]  # one long call may be chance
    assert result["winner_ms"] == pytest.approx(50.0)
    assert "one call of it takes 50 ms" in result["why"]


def test_a_hopeless_kernel_is_called_once() -> None:
    result = tune(kernel("default"), kernel("hopeless", 30.0), kernel("slow", 2.0))
    assert result["calls"][0][1] == 1
    assert result["calls"][0][2] <= 10


@pytest.mark.parametrize("warmup_iter", [0, 1, 5])
def test_warm_up_is_bounded(warmup_iter: int) -> None:
    with_warm_up = tune(kernel("default", 1.0), warmup_iter=warmup_iter, max_tuning_ms=10_000)
    without = tune(kernel("default", 1.0), warmup_iter=0, max_tuning_ms=10_000)
    assert with_warm_up["calls"][0][0] - without["calls"][0][0] == warmup_iter


def test_small_kernels_are_timed_in_batches() -> None:
    result = tune(kernel("default", 0.001), kernel("fast", 0.0008))
    assert result["winner"].kernel == "fast"
    rounds = len(result["samples"]["sim0:fast"])
    assert result["calls"][0][1] >= 20 * rounds


@pytest.mark.parametrize("after", [1, 3, 8, 16, 24])
def test_a_kernel_that_throttles_does_not_win(after: int) -> None:
    # Fast in three quarters of the rounds at most, slow for good in the last.
    result = tune(kernel("default"), kernel("throttles", 0.5, after=after, later_factor=4.0), warmup_iter=0)
    assert result["winner"].kernel == "default"


def test_time_really_passes() -> None:
    # Relative only: kernels that spin, on a machine with other things to do.
    begin = time.perf_counter()
    result = tune(kernel("default", 0.2), kernel("fast", 0.05), virtual_time=False, max_tuning_ms=400)
    spent_ms = (time.perf_counter() - begin) * 1e3
    assert result["winner"].kernel == "fast"
    assert result["spent_ms"] <= spent_ms


# ---- the libraries of this process ---------------------------------------------------------------


@pytest.mark.skipif(not hasattr(native, "tune_real"), reason="built without the kernel libraries")
@pytest.mark.parametrize("shape", [(1, 256, 256), (33, 100, 77), (64, 256, 64)])
@pytest.mark.parametrize("packed", [False, True])
def test_real_kernels_are_right(shape: tuple[int, int, int], packed: bool) -> None:
    m, n, k = shape
    problem = make_problem(m, n, k)
    operands: dict[str, Any] = make_operands(problem)
    if packed:
        problem.b_layout, problem.ldb, problem.b_constant = native.BLayout.packed, 0, 1
        operands["b"] = pack_b(operands["b"].reshape(k, n))
    result = native.tune_real(problem, **operands, scope_all=True)
    assert result["has_plan"]
    assert result["rejected"] == {}
    assert result["error"] <= 1.0


# ---- what is remembered -------------------------------------------------------------------------


def test_a_wrong_kernel_never_runs_again() -> None:
    kernels = [kernel("remembered-default"), kernel("remembered-wrong", 0.5, defect="one_element")]
    first = tune(*kernels, remember_wrong=True)
    assert first["rejected"]["sim0:remembered-wrong"].startswith("wrong answer")
    again = tune(*kernels, problem=make_problem(7, 21, 11), remember_wrong=True)
    assert again["rejected"]["sim0:remembered-wrong"].startswith("denied: wrong answer")
    assert again["calls"][0][1] == 0
    assert again["winner"].kernel == "remembered-default"
    # The first that is not denied is the default.
    last = tune(kernels[1], kernels[0], remember_wrong=True)
    assert last["default"].kernel == "remembered-default"


def test_when_every_kernel_seems_wrong_none_is_denied() -> None:
    kernels = [kernel(name, defect="one_element") for name in ("doubtful-default", "doubtful-other")]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="every kernel is wrong"):
            tune(*kernels, remember_wrong=True)
    sound = [kernel(name) for name in ("doubtful-default", "doubtful-other")]
    assert tune(*sound, remember_wrong=True)["rejected"] == {}


def test_a_kernel_that_fails_or_is_slow_may_try_again() -> None:
    kernels = [kernel("fine"), kernel("failing", 0.5, defect="error"), kernel("slow", 50.0)]
    for _ in range(2):
        result = tune(*kernels, remember_wrong=True)
        assert result["rejected"]["sim0:failing"].startswith("returned an error")
        assert result["calls"][0][1] > 0


@pytest.mark.parametrize(("ms", "others", "unraced"), [(1.0, 1, False), (60.0, 1, True), (60.0, 0, False)])
def test_a_budget_too_small_for_a_race_is_told(ms: float, others: int, unraced: bool) -> None:
    kernels = [kernel("default", ms), *[kernel(f"other{i}", ms) for i in range(others)]]
    result = tune(*kernels, max_tuning_ms=100.0, verify=ms < 50.0 or others > 0)
    assert result["budget_ms"] == (100.0 if unraced else 0.0)


def test_a_budget_that_ends_before_anybody_else_can_race_is_told() -> None:
    kernels = [kernel("default", 24.0), kernel("slow", 60.0), kernel("untried", 12.0)]
    result = tune(*kernels, max_tuning_ms=100.0)
    assert result["calls"][0][2] == 0
    assert result["budget_ms"] == 100.0
    assert "no time" in result["why"]
