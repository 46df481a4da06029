"""The tuner of a card: who wins there, what is checked, and that nothing a card does holds it up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tunableop_native_tests as native
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tuning_helpers import (
    LISTED,
    SMALL,
    US,
    VALLEY,
    found,
    gave_everything_back,
    kernel,
    make_operands,
    make_problem,
)
from tuning_helpers import tune_on_card as tune

# ---- who wins -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cold", [False, True])
def test_a_faster_kernel_wins(cold: bool) -> None:
    result = tune(kernel("default", 20 * US), kernel("fast", 15 * US), kernel("slow", 24 * US), cold_b=cold)
    assert result["winner"].full_name == "sim0:fast"
    assert result["default"].full_name == "sim0:default"
    assert result["winner_ms"] == pytest.approx(15 * US, rel=0.05)
    assert result["default_ms"] == pytest.approx(20 * US, rel=0.05)
    assert "% faster than the default" in result["why"]
    assert result["has_plan"]
    assert result["tried"] == 3
    assert 0.0 < result["error"] <= 1.0
    assert result["cold"] == cold
    assert result["clock_mhz"] == 0.0
    assert result["cycles"] is None
    assert result["left_c"]
    assert gave_everything_back(result)


def test_the_default_stays_below_min_gain() -> None:
    kernels = kernel("default", 1.0), kernel("faster", 0.95)
    assert tune(*kernels, min_gain=0.10)["winner"].kernel == "default"
    assert tune(*kernels, min_gain=0.03)["winner"].kernel == "faster"


def test_what_served_is_the_one_to_beat() -> None:
    kernels = kernel("default", 20 * US), kernel("serving", 15 * US), kernel("other", 14.8 * US)
    result = tune(*kernels, incumbent=native.Candidate("sim0", "serving"))
    assert result["winner"].kernel == "serving"
    assert result["why"].startswith("what served")
    result = tune(*kernels[:1], found("serving", 15 * US), incumbent=native.Candidate("sim0", "serving"))
    assert result["winner"].kernel == "serving"  # one that is not listed is prepared as well


def test_the_first_library_with_candidates_gives_the_default() -> None:
    result = tune(libraries=[[], [kernel("first", 20 * US)], [kernel("other", 10 * US)]])
    assert result["default"].full_name == "sim1:first"
    assert result["winner"].full_name == "sim2:other"


def test_no_candidate_is_an_error() -> None:
    result = tune(libraries=[[], []])
    assert result["status"] == "not supported"
    assert "no library can run it" in result["message"]


@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 0, 4), (4, 4, 0)])
def test_empty_problems(shape: tuple[int, int, int]) -> None:
    operands = {"a": None, "b": None}
    result = tune(kernel("default"), kernel("fast", 0.1), problem=make_problem(*shape), operands=operands)
    assert result["winner"].kernel == "default"
    assert result["calls"] == [[0, 0]]


# ---- the search ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cold", [False, True])
def test_a_search_beats_the_list_and_neighbours_beat_chance(cold: bool) -> None:
    listed = tune(*LISTED, cold_b=cold)
    assert listed["winner"].kernel == "listed"
    result = tune(*LISTED, *VALLEY, cold_b=cold)
    tried = [i for i, calls in enumerate(result["calls"][0][2:]) if calls > 0]
    assert result["winner_ms"] < 0.5 * listed["winner_ms"]
    # The middle was found by going there, and most were never called.
    assert int(result["winner"].kernel[1:]) in range(57, 64)
    assert 20 < len(tried) < 100
    assert all(count == 0 for i, count in enumerate(result["calls"][0][2:]) if i not in tried)


def test_the_search_is_the_same_each_time() -> None:
    first, again = tune(*LISTED, *VALLEY), tune(*LISTED, *VALLEY)
    assert again["calls"] == first["calls"]
    assert again["samples"] == first["samples"]
    other = tune(*LISTED, *VALLEY, problem=make_problem(6, 20, 11))
    assert other["calls"] != first["calls"]


def test_candidates_all_searches_more() -> None:
    quick = tune(*LISTED, *VALLEY, max_tuning_ms=400.0)
    thorough = tune(*LISTED, *VALLEY, max_tuning_ms=400.0, scope_all=True)
    assert sum(calls > 0 for calls in thorough["calls"][0]) == 122
    assert thorough["tried"] > quick["tried"]
    assert thorough["winner"].kernel == "x60"


def test_each_library_searches_for_itself() -> None:
    result = tune(libraries=[LISTED, [found(f"y{i}", (9 + 0.5 * abs(i - 10)) * US) for i in range(20)]])
    assert result["winner"].library == "sim1"
    assert result["winner"].kernel in {"y9", "y10", "y11"}


def test_what_cannot_be_prepared_is_no_reason_to_stop() -> None:
    broken = [found(f"b{i}", 1 * US, defect="unprepared") for i in range(20)]
    result = tune(*LISTED, *broken, found("good", 10 * US))
    assert result["winner"].kernel == "good"


# ---- right answers ------------------------------------------------------------------------------

DEFECTS = [
    "one_element", "last_row", "unwritten", "past_end", "before_start", "reads_c", "error", "low_precision",
]  # fmt: skip


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_kernel_never_wins(defect: str, listed: bool) -> None:
    wrong = kernel("wrong", 5 * US, defect=defect, listed=listed)
    result = tune(kernel("default", 20 * US), wrong, kernel("fast", 15 * US))
    assert result["winner"].kernel == "fast"
    reason = result["rejected"]["sim0:wrong"]
    assert ("returned an error" if defect == "error" else "wrong answer") in reason
    assert gave_everything_back(result)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_default_loses_whatever_the_gain(defect: str) -> None:
    result = tune(
        kernel("default", 10 * US, defect=defect), kernel("slow", 70 * US), kernel("slower", 90 * US)
    )
    assert result["winner"].kernel == "slow"
    assert list(result["rejected"]) == ["sim0:default"]
    assert "default is wrong or fails" in result["why"]


def test_nobody_is_right() -> None:
    result = tune(kernel("one", defect="last_row"), kernel("two", defect="error"))
    assert result["status"] == "internal error"
    assert "every kernel is wrong or fails; sim0:one wrong" in result["message"]


def test_when_all_others_turn_wrong_what_was_only_timed_is_looked_at() -> None:
    fickle = {"defect": "last_row", "after": 40}
    result = tune(kernel("default", 0.1, **fickle), kernel("other", 0.09, **fickle), kernel("slow", 0.3))
    assert result["winner"].kernel == "slow"
    assert result["why"] == "the only one that is right"


def test_many_wrong_ones_do_not_keep_a_right_one_from_the_race() -> None:
    wrong = [kernel(f"wrong{i}", (5 + 0.01 * i) * US, defect="one_element") for i in range(12)]
    result = tune(kernel("default", 20 * US), *wrong, kernel("fast", 12 * US), scope_all=True)
    assert result["winner"].kernel == "fast"
    assert len(result["rejected"]) == 12


@pytest.mark.parametrize("defect", ["last_row", "error"])
def test_a_kernel_that_is_right_at_first_only_is_caught(defect: str) -> None:
    result = tune(kernel("default", 0.1), kernel("fickle", 0.05, defect=defect, after=20))
    assert result["winner"].kernel == "default"
    assert "sim0:fickle" in result["rejected"]


def test_verification_can_be_switched_off() -> None:
    kernels = kernel("default", 20 * US), kernel("wrong", 10 * US, defect="last_row")
    result = tune(*kernels, verify=False)
    assert result["winner"].kernel == "wrong"
    assert result["error"] == 0.0
    beta = {**make_operands(SMALL), "beta": 0.5}
    assert tune(*kernels, operands=beta, verify=False)["winner"].kernel == "wrong"


TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16, "float64": np.float64}


def convert(operands: dict[str, Any], type_name: str) -> dict[str, Any]:
    """Arrays of that type; bf16 as its bits."""
    out = {}
    for name, array in operands.items():
        if type_name == "bfloat16":
            out[name] = (np.asarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        else:
            out[name] = np.asarray(array).astype(TYPES[type_name])
    return out


#: Of products whose weight and its transpose on the host take more than everything else.
TIGHT: dict[str, Any] = {
    "trans_a": False,
    "trans_b": False,
    "share_b": False,
    "gaps": (3, 3, 3, 3),
    "epilogue": "bias_gelu",
    "alpha": -0.7,
    "beta": 0.0,
    "type_name": "float64",
    "align_c": 4,
    "sampled": False,
    "template": False,
    "transposed": True,
    "transposes": False,
    "seed": 0,
}


@settings(max_examples=80, deadline=None)
@given(
    m=st.integers(1, 40),
    n=st.integers(1, 300),
    k=st.integers(1, 40),
    batch=st.integers(1, 3),
    trans_a=st.booleans(),
    trans_b=st.booleans(),
    share_b=st.booleans(),
    gaps=st.tuples(*[st.integers(0, 3)] * 4),
    epilogue=st.sampled_from(["none", "bias", "relu", "bias_relu", "gelu", "bias_gelu"]),
    alpha=st.sampled_from([1.0, 0.0, -0.7]),
    beta=st.sampled_from([0.0, 1.0, 0.3]),
    type_name=st.sampled_from(list(TYPES)),
    align_c=st.integers(2, 4),
    sampled=st.booleans(),
    template=st.booleans(),
    transposed=st.booleans(),
    transposes=st.booleans(),
    seed=st.integers(0, 1000),
)
@example(m=1, n=117, k=35, batch=2, **TIGHT)
@example(m=1, n=116, k=37, batch=3, **TIGHT)
def test_right_kernels_are_never_rejected_and_c_is_never_written(
    m: int,
    n: int,
    k: int,
    batch: int,
    trans_a: bool,
    trans_b: bool,
    share_b: bool,
    gaps: tuple[int, int, int, int],
    epilogue: str,
    alpha: float,
    beta: float,
    type_name: str,
    align_c: int,
    sampled: bool,
    template: bool,
    transposed: bool,
    transposes: bool,
    seed: int,
) -> None:
    layout: dict[str, int] = {"lda": (m if trans_a else k) + gaps[0], "ldc": n + gaps[1]}
    layout["ldb"] = (k if trans_b else n) + gaps[3]
    layout["stride_c"] = layout["ldc"] * m + gaps[2]
    problem = make_problem(
        m,
        n,
        k,
        batch=batch,
        trans_a=trans_a,
        trans_b=trans_b,
        b_constant=1,
        epilogue=getattr(native.Epilogue, epilogue),
        **layout,
    )
    if not share_b and batch > 1:
        problem.stride_b = layout["ldb"] * (n if trans_b else k) + gaps[3]
    problem.align_c = align_c if type_name != "float64" else 4
    data_type = getattr(native.DataType, type_name)
    problem.a_type = problem.b_type = problem.c_type = data_type
    operands = convert(make_operands(problem, seed), type_name)
    size = np.dtype(TYPES[type_name]).itemsize
    # Room for all that is checked, and for B and its transpose on the host.
    elements = batch * ((m + 3) * (n + 3 + k) + 2 * (n + 6) * (k + 6))
    result = tune(
        kernel("default", 20 * US),
        kernel("fast", 12 * US, transposed=transposed),
        problem=problem,
        operands={**operands, "alpha": alpha, "beta": beta},
        transposes=transposes,
        # A small budget does not pay for fetching everything.
        max_tuning_ms=0.05 * m * n / 2500 + 0.5 if sampled else 100.0,
        max_scratch_bytes=1 << 26 if template else 3 * size * elements + (1 << 16),
    )
    assert result["rejected"] == {}
    assert result["error"] <= 1.0
    assert result["winner_ms"] > 0.0
    if not sampled:
        assert result["winner"].kernel == "fast"
    assert result["left_c"]
    assert gave_everything_back(result)


@pytest.mark.parametrize("type_name", ["float16", "bfloat16"])
def test_one_wrong_element_of_few_bits_is_seen(type_name: str) -> None:
    problem = make_problem(70, 500, 64)
    problem.a_type = problem.b_type = problem.c_type = getattr(native.DataType, type_name)
    operands = convert(make_operands(problem), type_name)
    # Larger than rounding, which has 8 bits in bf16.
    operands["a"][:] = convert({"a": np.ones(operands["a"].size)}, type_name)["a"]
    operands["b"][:] = convert({"b": np.ones(operands["b"].size)}, type_name)["b"]
    kernels = kernel("default", 0.1), kernel("wrong", 0.05, defect="one_element")
    for threads in (1, 3):
        result = tune(*kernels, problem=problem, operands=operands, max_tuning_ms=50.0, threads=threads)
        assert "row 35, column 250" in result["rejected"]["sim0:wrong"]


def test_every_half_is_read_as_it_is() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # numpy remarks on signalling NaN
        widened = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    for type_name, expected in (
        ("float16", bits.view(np.float16).astype(np.float64)),
        ("bfloat16", widened),
    ):
        got = native.load_elements(bits, getattr(native.DataType, type_name))
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def test_numbers_that_nearly_overflow_are_right_either_way() -> None:
    # Sums at the edge of fp16: rounding up gives infinity, rounding down 65504.
    problem = make_problem(4, 8, 8)
    problem.a_type = problem.b_type = problem.c_type = native.DataType.float16
    operands = convert(make_operands(problem), "float16")
    operands["a"][:] = 90.5
    operands["b"][:] = 90.49
    kernels = kernel("default", 0.1), kernel("fast", 0.05)
    assert tune(*kernels, problem=problem, operands=operands)["rejected"] == {}


def test_large_answers_are_checked_in_samples() -> None:
    problem = make_problem(100, 700, 200)
    operands = make_operands(problem)
    ceiling = 800_000  # C and the operands are more, a sample of them is less
    kernels = [kernel("default", 0.02), kernel("wrong", 0.01, defect="last_row"), kernel("fast", 0.015)]
    result = tune(*kernels, problem=problem, operands=operands, max_scratch_bytes=ceiling)
    assert "; checked in 16 rows and 512 columns" in result["why"]
    assert "row 15" in result["rejected"]["sim0:wrong"]  # the last of them
    assert result["winner"].kernel == "fast"
    for defect in ("past_end", "before_start"):
        kernels[1]["defect"] = defect
        result = tune(*kernels, problem=problem, operands=operands, max_scratch_bytes=ceiling)
        assert result["rejected"]["sim0:wrong"] == "wrong answer: wrote outside of C"
    # A budget that does not pay for all of it has the same effect.
    result = tune(*kernels, problem=problem, operands=operands, max_tuning_ms=0.8)
    assert "; checked in 16 rows and 128 columns" in result["why"]
    # Else everything is.
    kernels[1]["defect"] = "one_element"
    result = tune(*kernels, problem=problem, operands=operands)
    assert "checked in" not in result["why"]
    assert "row 50, column 350" in result["rejected"]["sim0:wrong"]


def test_operands_beyond_the_ceiling_are_sampled_too() -> None:
    problem = make_problem(4, 3000, 100)
    ceiling = 1 << 20  # B alone is more
    kernels = kernel("default", 0.02), kernel("wrong", 0.01, defect="last_row"), kernel("fast", 0.015)
    result = tune(*kernels, problem=problem, max_scratch_bytes=ceiling, card={"cache_bytes": 4096})
    assert "; checked in 4 rows and" in result["why"]
    assert "wrong answer" in result["rejected"]["sim0:wrong"]
    assert result["winner"].kernel == "fast"


@pytest.mark.parametrize("after", [0, 3, 20])
def test_when_operands_change_nobody_is_blamed(after: int) -> None:
    name = f"card-overwritten-{after}"
    kernels = [kernel(name, 0.02), kernel(f"{name}-other", 0.01)]
    kernels.append(kernel(f"{name}-writer", 0.018, defect="overwrites_a", after=after))
    result = tune(*kernels, remember_wrong=True)
    assert result["winner"].kernel == name
    assert result["why"] == "the default, unmeasured: the operands changed while measuring"
    assert 0.0 < result["budget_ms"] < 0.01
    assert not any(name in denied for denied, _, _ in native.denials())


def test_a_wrong_kernel_never_runs_again() -> None:
    kernels = [kernel("card-default", 0.02), kernel("card-wrong", 0.01, defect="one_element")]
    assert "wrong answer" in tune(*kernels, remember_wrong=True)["rejected"]["sim0:card-wrong"]
    again = tune(*kernels, remember_wrong=True)
    assert again["rejected"]["sim0:card-wrong"].startswith("denied: wrong answer")
    assert again["calls"][0][1] == 0


# ---- a transposed B -----------------------------------------------------------------------------


@pytest.mark.parametrize("transposes", [False, True])
def test_a_transposed_b_is_made_for_who_reads_it(transposes: bool) -> None:
    problem = make_problem(6, 50, 70, b_constant=1)
    kernels = kernel("default", 20 * US), kernel("transposed", 10 * US, transposed=True)
    result = tune(*kernels, problem=problem, transposes=transposes)
    assert result["winner"].kernel == "transposed"
    assert result["rejected"] == {}
    assert gave_everything_back(result)
    unverified = tune(*kernels, problem=problem, transposes=transposes, verify=False)
    assert unverified["winner"].kernel == "transposed"
    found_it = tune(kernels[0], found("found", 10 * US, transposed=True), problem=problem)
    assert found_it["winner"].kernel == "found"


def test_without_a_transposed_b_who_reads_it_is_out() -> None:
    kernels = kernel("default", 20 * US), kernel("transposed", 10 * US, transposed=True)
    result = tune(*kernels)
    assert result["rejected"] == {"sim0:transposed": "needs a transposed copy of B: B is not constant"}
    problem = make_problem(6, 500, 700, b_constant=1)
    result = tune(*kernels, problem=problem, max_scratch_bytes=2_000_000)
    assert "more than the ceiling of 2000000 bytes" in result["rejected"]["sim0:transposed"]
    result = tune(*kernels, problem=problem, max_tuning_ms=4.0)
    assert "does not pay for making it" in result["rejected"]["sim0:transposed"]
    assert result["calls"][0][1] == 0
