from __future__ import annotations

import math
import random
import re

import numpy as np
import pytest
from onnxruntime_ep_tunableop.bench import figures

TIMES = [4.0, 1.0, 3.0, 2.0, 10.0]


def test_percentiles_by_hand():
    # 1 2 3 4 10: 90 % lie up to place 3.6 of 0 to 4, which is 4 + 0.6 x (10 - 4)
    assert figures.percentile(TIMES, 90) == pytest.approx(7.6)
    assert figures.percentile(TIMES, 50) == 3.0
    assert figures.percentile(TIMES, 0) == 1.0
    assert figures.percentile(TIMES, 100) == 10.0
    assert figures.percentile([5.0], 99) == 5.0
    with pytest.raises(ValueError, match="no samples"):
        figures.percentile([], 50)
    with pytest.raises(ValueError, match="from 0 to 100, not 101"):
        figures.percentile(TIMES, 101)


def test_latency_by_hand():
    found = figures.latency(TIMES)
    assert (found.count, found.mean, found.minimum, found.median, found.maximum) == (5, 4.0, 1.0, 3.0, 10.0)
    assert found.deviation == pytest.approx(math.sqrt((0 + 9 + 1 + 4 + 36) / 4))
    assert (found.p90, found.p95, found.p99) == pytest.approx((7.6, 8.8, 9.76))
    one = figures.latency([0.25])
    assert one == figures.Latency(1, 0.25, 0.0, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25)
    with pytest.raises(ValueError, match="no calls"):
        figures.latency([])


def test_throughput_by_hand():
    found = figures.throughput([10, 20, 30], [1.0, 1.0, 1.0])
    assert (found.mean, found.deviation) == (20.0, 10.0)
    assert figures.throughput([7], [2.0]) == figures.Throughput(3.5, 0.0)
    for counts, seconds in (([], []), ([1], [1.0, 2.0]), ([1], [0.0])):
        with pytest.raises(ValueError, match="no throughput"):
            figures.throughput(counts, seconds)


def test_latency_is_what_numpy_says():
    hypothesis = pytest.importorskip("hypothesis")
    numbers = hypothesis.strategies.floats(1e-9, 1e3)

    @hypothesis.given(hypothesis.strategies.lists(numbers, min_size=1, max_size=60))
    def check(samples: list[float]) -> None:
        found = figures.latency(samples)
        expected = np.percentile(samples, [0, 50, 90, 95, 99, 100])
        percentiles = (found.minimum, found.median, found.p90, found.p95, found.p99, found.maximum)
        assert percentiles == pytest.approx(tuple(expected), rel=1e-12)
        assert found.mean == pytest.approx(np.mean(samples), rel=1e-12)
        spread = np.std(samples, ddof=1) if len(samples) > 1 else 0.0
        assert found.deviation == pytest.approx(spread, rel=1e-6, abs=1e-12 * found.maximum)
        assert found.minimum <= found.median <= found.p90 <= found.p95 <= found.p99 <= found.maximum

    check()


def test_bootstrap_intervals_hold_the_truth_as_often_as_they_say():
    """200 series of two sides whose medians are 1.3 to 1: about 95 % of the intervals must hold 1.3."""
    draw = random.Random(7)
    held = {True: 0, False: 0}
    for seed in range(200):
        drift = [draw.gauss(0.0, 0.05) for _ in range(15)]
        below = [math.exp(d + draw.gauss(0.0, 0.05)) for d in drift]
        above = [1.3 * math.exp(d + draw.gauss(0.0, 0.05)) for d in drift]
        for paired in held:
            interval = figures.bootstrap_ratio(above, below, paired=paired, resamples=300, seed=seed)
            held[paired] += 1.3 in interval
    # 0.95 +- three standard deviations of 200 draws; the medians of a few figures make it a little wide.
    for paired, count in held.items():
        assert 0.90 * 200 <= count <= 200, f"paired={paired}: {count} of 200"
    assert held[False] < 200, "an interval that always holds the truth is too wide to say anything"


def test_bootstrap_of_a_level():
    draw = random.Random(1)
    above, below = ([draw.gauss(mean, 0.2) for _ in range(30)] for mean in (2.0, 1.0))
    narrow = figures.bootstrap_ratio(above, below, level=0.5)
    wide = figures.bootstrap_ratio(above, below, level=0.99)
    assert narrow.value == wide.value
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


def _agree(got: object, expected: object, rtol: float = 1e-3, atol: float = 1e-6) -> figures.Agreement:
    return figures.agreement({"y": np.asarray(got)}, {"y": np.asarray(expected)}, rtol, atol)


def test_agreement_by_hand():
    found = _agree([1.0, 2.0, 4.001], [1.0, 2.0, 4.0])
    assert found.within
    assert found.reason == ""
    assert found.absolute == pytest.approx(0.001)
    assert found.relative == pytest.approx(0.001 / 4)
    off = _agree([1.1, 2.0, -40.0], [1.0, 2.0, -40.0])
    assert not off.within
    assert off.reason.startswith("y: 1 of 3 elements differ, the first at [0]: 1.1, not 1.0")
    assert off.absolute == pytest.approx(0.1)
    assert off.relative == pytest.approx(0.1 / 40)


def test_the_largest_of_several_tensors_counts():
    got = {"a": np.array([1.0, 10.5]), "b": np.array([0.101])}
    expected = {"a": np.array([1.0, 10.0]), "b": np.array([0.1])}
    found = figures.agreement(got, expected, 0.1, 0.0)
    assert found.within
    assert found.absolute == pytest.approx(0.5)
    assert found.relative == pytest.approx(0.05)


def test_agreement_of_nan_infinity_and_zeros():
    nan, inf = math.nan, math.inf
    assert _agree([nan, inf, -inf, 0.0], [nan, inf, -inf, 0.0]) == figures.Agreement(0.0, 0.0, True)
    for got, expected in ((nan, 1.0), (1.0, nan), (inf, 1.0), (inf, -inf), (1e30, inf), (nan, inf)):
        found = _agree([got, 2.0], [expected, 2.0])
        assert not found.within, f"{got} is not {expected}"
        assert found.absolute == inf
    # A tensor of zeros has no magnitude to be in relation to.
    assert _agree([1e-9], [0.0]) == figures.Agreement(1e-9, inf, True)
    assert _agree([], []) == figures.Agreement(0.0, 0.0, True)


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint8, np.float16])
def test_agreement_of_other_types(kind: type):
    assert _agree(np.array([1, 2, 3], kind), np.array([1, 2, 3], kind), 0.0, 0.0).within
    found = _agree(np.array([1, 2, 4], kind), np.array([1, 2, 3], kind), 0.0, 0.0)
    assert (found.within, found.absolute) == (False, 1.0)
    assert _agree(np.array([1, 2, 4], kind), np.array([1, 2, 3], kind), 0.0, 1.0).within
    assert _agree(np.array([100], kind), np.array([99], kind), 0.02, 0.0).within


def test_agreement_of_truth_values_texts_and_large_whole_numbers():
    assert _agree([True, False], [True, False]).within
    assert not _agree([True, False], [True, True], 0.0, 0.0).within
    assert _agree(np.array(["a", "b"], object), np.array(["a", "b"], object)).within
    texts = _agree(np.array(["a", "c"], object), np.array(["a", "b"], object))
    assert (texts.within, texts.absolute, texts.reason) == (False, math.inf, "y: 1 of 2 texts differ")
    # Neighbours beyond 2^53 are one number in float64; equality of whole numbers is exact all the same.
    assert _agree([2**60 + 1], [2**60 + 1], 0.0, 0.0).within
    assert _agree([2**60 + 1], [2**60], 0.0, 0.0) == figures.Agreement(
        1.0, 2.0**-60, False, f"y: 1 of 1 elements differ, the first at [0]: {2**60 + 1}, not {2**60}"
    )
    assert _agree([2**60 + 1], [2**60], 0.0, 1.0).within
    # Extremes of an unsigned type must not wrap around.
    assert _agree(np.array([0], np.uint8), np.array([255], np.uint8)).absolute == 255.0


def test_what_cannot_be_compared_says_why():
    one = np.ones((2, 3), np.float32)
    for got, reason in (
        ({"y": one.T}, r"y: shape \[3, 2\], expected \[2, 3\]"),
        ({"y": one.astype(np.float64)}, "y: type float64, expected float32"),
        ({}, "missing: y"),
        ({"y": one, "z": one}, "not expected: z"),
    ):
        found = figures.agreement(got, {"y": one}, 1.0, 1.0)
        assert not found.within
        assert found.absolute == math.inf
        assert re.fullmatch(reason, found.reason), found.reason


def test_agreement_within_is_numpy_isclose():
    hypothesis = pytest.importorskip("hypothesis")
    numbers = hypothesis.strategies.floats(width=32)
    pairs = hypothesis.strategies.lists(hypothesis.strategies.tuples(numbers, numbers), max_size=8)
    tolerances = hypothesis.strategies.sampled_from([0.0, 1e-5, 0.5])

    @hypothesis.given(pairs, tolerances, tolerances)
    def check(values: list[tuple[float, float]], rtol: float, atol: float) -> None:
        got = np.array([a for a, _ in values], np.float32)
        expected = np.array([b for _, b in values], np.float32)
        found = figures.agreement({"y": got}, {"y": expected}, rtol, atol)
        wide = np.isclose(got.astype(float), expected.astype(float), rtol=rtol, atol=atol, equal_nan=True)
        assert found.within == bool(wide.all())
        assert found.within == (found.reason == "")

    check()


def test_scalars_are_compared():
    """A loss or the product of two vectors: numpy makes numbers, not arrays, of what is computed of them."""
    for kind in (np.float32, np.float16, np.int64, np.bool_):
        one = np.asarray(1, kind)
        assert figures.agreement({"y": one}, {"y": one}, 0.0, 0.0).within
        found = figures.agreement({"y": np.asarray(0, kind)}, {"y": one}, 0.0, 0.0)
        assert not found.within
        assert found.absolute == found.relative == 1.0
    nan = np.asarray(np.nan, np.float32)
    assert figures.agreement({"y": nan}, {"y": nan}, 0.0, 0.0).within
    assert not figures.agreement({"y": nan}, {"y": np.asarray(1, np.float32)}, 0.0, 0.0).within
