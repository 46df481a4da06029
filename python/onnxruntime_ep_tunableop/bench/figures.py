"""The arithmetic of a report: percentiles, rates, intervals, and whether two answers agree.

Times are seconds. Nothing here measures, so every figure can be checked against known numbers.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def percentile(samples: Sequence[float], q: float) -> float:
    """The value below which `q` percent of the samples lie, interpolated linearly as numpy does by default.

    Raises ValueError when there are no samples, or `q` is not within 0 and 100.
    """
    if not samples:
        raise ValueError("no percentile of no samples")
    if not 0.0 <= q <= 100.0:
        raise ValueError(f"a percentile is from 0 to 100, not {q}")
    return _of_sorted(sorted(samples), q)


def _of_sorted(ordered: Sequence[float], q: float) -> float:
    place = (len(ordered) - 1) * q / 100.0
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def geomean(values: Sequence[float]) -> float:
    """Geometric mean of values above 0; NaN of nothing."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else math.nan


@dataclass(frozen=True)
class Latency:
    """What single calls took, in seconds. `deviation`: of a sample (n - 1), 0 for a single call."""

    count: int
    mean: float
    deviation: float
    minimum: float
    median: float
    p90: float
    p95: float
    p99: float
    maximum: float


def latency(samples: Sequence[float]) -> Latency:
    """The summary of `samples`. Raises ValueError when there are none."""
    if not samples:
        raise ValueError("no latency of no calls")
    ordered = sorted(samples)
    p50, p90, p95, p99 = (_of_sorted(ordered, q) for q in (50.0, 90.0, 95.0, 99.0))
    mean, deviation = _mean_and_deviation(ordered)
    return Latency(len(ordered), mean, deviation, ordered[0], p50, p90, p95, p99, ordered[-1])


@dataclass(frozen=True)
class Throughput:
    """Calls per second: mean and sample standard deviation of the blocks' rates (0 of a single block)."""

    mean: float
    deviation: float


def throughput(counts: Sequence[int], seconds: Sequence[float]) -> Throughput:
    """The rate of blocks that made `counts` calls in `seconds` each.

    Raises ValueError when there is no block, both differ in length, or a block took no time.
    """
    if not counts or len(counts) != len(seconds) or min(seconds) <= 0.0:
        raise ValueError(f"no throughput of {len(counts)} blocks in {list(seconds)} seconds")
    return Throughput(
        *_mean_and_deviation([count / time for count, time in zip(counts, seconds, strict=True)])
    )


def _mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


@dataclass(frozen=True)
class Interval:
    """A figure and the interval that holds it with some confidence."""

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there is an interval; its ends are NaN where there were too few figures for one."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def __contains__(self, value: float) -> bool:
        """Whether the interval holds `value`; NaN ends hold nothing."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        """For example "1.012 (0.998-1.031)", "1.012 (no interval)"."""
        if not self.is_known:
            return f"{self.value:.3f} (no interval)"
        return f"{self.value:.3f} ({self.low:.3f}-{self.high:.3f})"


def bootstrap_ratio(
    above: Sequence[float],
    below: Sequence[float],
    *,
    paired: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """median(above) / median(below), with its percentile bootstrap interval.

    `paired`: the figures at one position belong to one round and are drawn together, so that what all of a
    round met cancels out. Otherwise each side is drawn by itself. Raises ValueError when a side is empty, or
    when sides of different length are to be paired.
    """
    if not above or not below or (paired and len(above) != len(below)):
        raise ValueError(f"no ratio of {len(above)} to {len(below)} figures{', paired' if paired else ''}")
    draw = random.Random(seed).choices
    places = range(len(above)), range(len(below))
    ratios: list[float] = []
    for _ in range(resamples):
        upper = draw(places[0], k=len(above))
        lower = upper if paired else draw(places[1], k=len(below))
        ratios.append(statistics.median(above[i] for i in upper) / statistics.median(below[i] for i in lower))
    ratios.sort()
    tail = int(resamples * (1 - level) / 2)
    value = statistics.median(above) / statistics.median(below)
    return Interval(value, ratios[tail], ratios[-1 - tail])


@dataclass(frozen=True)
class Agreement:
    """How far answers are from what was expected.

    `absolute`: the largest error; infinite where NaN meets a number, or infinity anything but itself.
    `relative`: the largest error in relation to the largest finite magnitude of the expected tensor; infinite
    where anything but zeros meets a tensor of zeros. Both are infinite where arrays cannot be compared.
    `within`: everything agrees. `reason`: why not, in words; empty when all does.
    """

    absolute: float
    relative: float
    within: bool
    reason: str = ""


def agreement(got: Mapping[str, Array], expected: Mapping[str, Array], rtol: float, atol: float) -> Agreement:
    """Compares answers by name: names, types and shapes must be the same, elements as numpy.isclose has it.

    That is |got - expected| <= atol + rtol * |expected|, in float64; NaN agrees with NaN, infinity with the
    same infinity. Whole numbers and truth values that are equal always agree; texts must be equal.
    """
    absolute = relative = 0.0
    reasons: list[str] = []
    if missing := [name for name in expected if name not in got]:
        reasons.append(f"missing: {', '.join(missing)}")
    if extra := [name for name in got if name not in expected]:
        reasons.append(f"not expected: {', '.join(extra)}")
    if reasons:
        absolute = relative = math.inf
    for name in expected:
        if name in got:
            error, share, reason = _compare(np.asarray(got[name]), np.asarray(expected[name]), rtol, atol)
            absolute, relative = max(absolute, error), max(relative, share)
            if reason:
                reasons.append(f"{name}: {reason}")
    return Agreement(absolute, relative, not reasons, "; ".join(reasons))


def _compare(got: Array, expected: Array, rtol: float, atol: float) -> tuple[float, float, str]:
    """Absolute and relative error, and what is wrong in words."""
    if got.dtype != expected.dtype:
        return math.inf, math.inf, f"type {got.dtype}, expected {expected.dtype}"
    if got.shape != expected.shape:
        return math.inf, math.inf, f"shape {list(got.shape)}, expected {list(expected.shape)}"
    if got.size == 0:
        return 0.0, 0.0, ""
    equal = np.asarray(got == expected)
    if expected.dtype.kind in "OSU":
        wrong = int(np.count_nonzero(~equal))
        worst = math.inf if wrong else 0.0
        return worst, worst, f"{wrong} of {got.size} texts differ" if wrong else ""
    kind = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = got.astype(kind), expected.astype(kind)
    close = equal | np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.array(np.abs(a - b))  # of scalars, too: numpy gives a number that cannot be assigned to
    if expected.dtype.kind in "iub":  # neighbours beyond 2^53 are one number in float64
        errors = np.array(np.maximum(errors, 1.0))
        close = equal | (errors <= atol + rtol * np.abs(b))
    errors[equal | (np.isnan(a) & np.isnan(b))] = 0.0
    errors[np.isnan(errors)] = math.inf
    magnitudes = np.abs(b)
    scale = float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))
    worst = float(errors.max())
    share = 0.0 if worst == 0.0 else (worst / scale if scale > 0.0 else math.inf)
    if wrong := int(np.count_nonzero(~close)):
        at = tuple(int(i) for i in np.argwhere(~close)[0])
        reason = (
            f"{wrong} of {got.size} elements differ, the first at {list(at)}: {got[at]}, not {expected[at]}"
        )
        return worst, share, reason
    return worst, share, ""
