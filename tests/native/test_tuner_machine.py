"""What measuring asks of the machine: cold weights, the core's clock, its counters. Relative only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tunableop_native_tests as native
from tuning_helpers import kernel, make_operands, make_problem, pack_b, tune

CAN_FLUSH = pytest.mark.skipif(
    not native.can_flush_caches(), reason="this processor has no instruction that flushes a cache line"
)


def vector_times_matrix(kib: int) -> tuple[native.Problem, dict[str, Any]]:
    """A product that reads a packed B of so many KiB once."""
    n, k = 256, kib
    problem = make_problem(1, n, k)
    operands: dict[str, Any] = make_operands(problem)
    operands["b"] = pack_b(operands["b"].reshape(k, n))
    problem.b_layout, problem.ldb, problem.b_constant = native.BLayout.packed, 0, 1
    return problem, operands


@CAN_FLUSH
def test_a_flushed_b_takes_longer_to_read() -> None:
    # 512 KiB fit the second-level cache of any processor of today, and the rest of the operands is small.
    problem, operands = vector_times_matrix(512)
    warm = min(native.tune_real(problem, **operands, cold_b=False)["default_ms"] for _ in range(3))
    results = [native.tune_real(problem, **operands, cold_b=True) for _ in range(3)]
    assert all(result["cold"] for result in results)
    assert min(result["default_ms"] for result in results) > 1.5 * warm


def test_without_cold_b_nothing_is_flushed() -> None:
    problem, operands = vector_times_matrix(64)
    assert not native.tune_real(problem, **operands)["cold"]


@CAN_FLUSH
def test_flushing_leaves_the_operands_alone_and_the_budget_holds() -> None:
    problem, operands = vector_times_matrix(4096)
    before = operands["b"].copy()
    result = native.tune_real(problem, **operands, cold_b=True, max_tuning_ms=50.0)
    np.testing.assert_array_equal(operands["b"], before)
    assert result["error"] <= 1.0
    assert result["rejected"] == {}


def test_a_cold_measurement_elects_as_a_warm_one_does() -> None:
    kernels = kernel("default", 0.001), kernel("fast", 0.0008)
    result = tune(*kernels, cold_b=True)
    assert result["winner"].kernel == "fast"
    assert result["winner_ms"] == pytest.approx(0.0008)
    assert result["cold"] == native.can_flush_caches()


def test_the_clock_of_the_core_is_measured() -> None:
    mhz = [native.measure_clock_mhz() for _ in range(20)]
    # No processor of today is outside; a chain that the compiler or the core folds would be.
    assert 200.0 < np.median(mhz) < 8000.0
    assert np.percentile(mhz, 75) < 1.5 * np.percentile(mhz, 25)
    problem = make_problem(4, 16, 16)
    assert 200.0 < native.tune_real(problem, **make_operands(problem))["clock_mhz"] < 8000.0


def test_counters_are_filled_or_say_why_not() -> None:
    problem = make_problem(16, 64, 64)
    result = native.tune_real(problem, **make_operands(problem), count_hardware=True)
    for name in ("cycles", "instructions", "cache_misses"):
        assert result[name] is not None or result["counters_unavailable"]
    if result["instructions"] is not None:
        # No kernel here does more than 16 multiplications in an instruction.
        assert result["instructions"] >= 16 * 64 * 64 / 16
    without = native.tune_real(problem, **make_operands(problem))
    assert without["instructions"] is None
    assert without["counters_unavailable"] == ""


def test_a_virtual_clock_says_nothing_of_the_core() -> None:
    assert tune(kernel("default"))["clock_mhz"] == 0.0
