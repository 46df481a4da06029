"""Rates of a GEMM, and hardware counters."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import tunableop_native_tests as native
from tuning_helpers import make_problem

# ---- rates --------------------------------------------------------------------------------------


def test_gflops() -> None:
    # 2 * 1000^3 operations in 20 ms.
    assert native.gflops(make_problem(1000, 1000, 1000), 20.0) == pytest.approx(100.0)
    assert native.gflops(make_problem(10, 10, 10, batch=4), 1e-3) == pytest.approx(8.0)


def test_gigabytes_per_second() -> None:
    # 12 MB in 1 ms.
    assert native.gigabytes_per_second(make_problem(1000, 1000, 1000), 1.0) == pytest.approx(12.0)


@pytest.mark.parametrize("ms", [0.0, -1.0, float("nan")])
def test_no_time_is_no_rate(ms: float) -> None:
    problem = make_problem(10, 10, 10)
    assert native.gflops(problem, ms) == 0.0
    assert native.gigabytes_per_second(problem, ms) == 0.0


A, B, C = 4 * 6 * 10, 4 * 10 * 20, 4 * 6 * 20


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, A + B + C),
        ({"beta": native.ScalarClass.one}, A + B + 2 * C),
        ({"beta": native.ScalarClass.other}, A + B + 2 * C),
        ({"trans_a": 1, "trans_b": 1}, A + B + C),
        ({"lda": 100, "ldb": 100, "ldc": 100}, A + B + C),  # gaps do not move
        ({"b_layout": native.BLayout.packed, "b_constant": 1}, A + B + C),
        ({"batch": 3}, 3 * A + B + 3 * C),  # one B for the whole batch
        ({"batch": 3, "stride_b": 200}, 3 * (A + B + C)),
        ({"batch": 3, "stride_a": 0, "stride_b": 200}, A + 3 * (B + C)),
        ({"batch": 0}, 0),
        ({"epilogue": native.Epilogue.bias_relu}, A + B + C + 4 * 20),
        ({"epilogue": native.Epilogue.relu}, A + B + C),
        ({"a_type": native.DataType.float16, "c_type": native.DataType.float64}, A / 2 + B + 2 * C),
    ],
)
def test_compulsory_bytes(fields: dict[str, Any], expected: float) -> None:
    assert native.compulsory_bytes(make_problem(6, 20, 10, **fields)) == expected


def test_sizes_whose_product_does_not_fit_an_integer() -> None:
    problem = make_problem(2**31, 2**31, 2**31)
    assert native.compulsory_bytes(problem) == pytest.approx(3 * 4 * 2.0**62)


# ---- hardware counters --------------------------------------------------------------------------


def test_counters_count_or_say_why_not() -> None:
    loops = 200_000
    reading = native.count_loop(loops, 5)
    counters = [reading["cycles"], reading["instructions"], reading["cache_misses"]]
    assert (None in counters) == bool(reading["unavailable"])
    if reading["instructions"] is not None:
        # Two rounds were counted, each for itself: a few instructions a turn.
        assert loops < reading["instructions"] < 20 * loops
    if reading["cycles"] is not None:
        assert reading["cycles"] > loops / 8
    if reading["cache_misses"] is not None:
        assert reading["cache_misses"] < loops
    assert "\n" not in reading["unavailable"]


def test_no_call_has_no_counts() -> None:
    reading = native.count_loop(1, 0)
    assert reading["cycles"] is None
    assert reading["unavailable"]


@pytest.mark.parametrize("error", [errno.EACCES, errno.EPERM])
def test_a_system_that_forbids_counters(error: int) -> None:
    assert native.explain_perf_error(error, "cycles", 3) == (
        "kernel.perf_event_paranoid is 3: perf events need 2 or less, or CAP_PERFMON"
    )
    for paranoid in (2, None):
        assert "seccomp" in native.explain_perf_error(error, "cycles", paranoid)


@pytest.mark.parametrize("error", [errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV])
def test_a_machine_without_counters(error: int) -> None:
    assert native.explain_perf_error(error, "cycles, cache misses") == (
        "this (virtual) machine gives no counter for cycles, cache misses"
    )


def test_other_errors_are_named() -> None:
    assert native.explain_perf_error(errno.ENOSYS, "cycles") == "this system has no perf events"
    assert "Too many open files" in native.explain_perf_error(errno.EMFILE, "cycles")


def test_counts_are_scaled_when_counters_took_turns() -> None:
    assert native.scaled_count(1000, 100, 100) == 1000.0
    assert native.scaled_count(1000, 100, 25) == 4000.0
    assert native.scaled_count(1000, 100, 0) is None
    assert native.scaled_count(0, 0, 0) is None
    assert native.scaled_count(2**63, 2**40, 2**39) == 2.0**64
