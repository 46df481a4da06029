"""Interleaved timing: what is compared runs in turns, in one process, and meets the same machine.

One round gives every contender one block, in an order drawn anew (and recorded). A block waits until the
process is idle, warms up, then times single calls; its figure is their median. Waiting matters: the pool of
an ONNX Runtime session of default options spins for tens of milliseconds after its last run and would take a
core from the next contender. Their threads are pinned, too (`benchmarks.common`). The ratio of two contenders
is taken in each round; the median of these is the result, their quartiles are its spread.

Beside it, two statistics for what cannot be interleaved: the bootstrap interval of a ratio of medians (the
package's own, `bench.figures`), and the Theil-Sen slope of a series.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from onnxruntime_ep_tunableop.bench.figures import Interval, bootstrap_ratio
from onnxruntime_ep_tunableop.bench.turns import wait_until_idle

__all__ = [
    "QUICK",
    "Interval",
    "Plan",
    "Ratio",
    "Result",
    "bootstrap_ratio",
    "interleave",
    "theil_sen",
    "wait_until_idle",
]


@dataclass(frozen=True)
class Plan:
    """How much to measure. `block` and `warm_up` in seconds; a block times at least one call.

    A pool that slept is slow to wake (`bench.worker.callers`), so that warming up must not be short.
    """

    rounds: int = 15
    block: float = 0.05
    warm_up: float = 0.05
    seed: int = 0


QUICK = Plan(rounds=5, block=0.02, warm_up=0.05)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as a baseline: above 1 is faster.

    `value`, `low` and `high`: median and quartiles of the ratios of single rounds, which a drift of the
    machine leaves alone. `of_medians`: the ratio of the medians over all rounds.
    """

    value: float
    low: float
    high: float
    of_medians: float

    @property
    def spread(self) -> float:
        """Interquartile range."""
        return self.high - self.low

    def __str__(self) -> str:
        """For example "1.123 (1.118-1.131)"."""
        return f"{self.value:.3f} ({self.low:.3f}-{self.high:.3f})"


@dataclass
class Result:
    """Seconds per call, one figure for each round, by contender; and the order of each round."""

    seconds: dict[str, list[float]]
    order: list[list[str]] = field(default_factory=list)

    def median(self, name: str) -> float:
        """Median over the rounds, in seconds per call."""
        return statistics.median(self.seconds[name])

    def best(self, name: str) -> float:
        """The quietest round, in seconds per call."""
        return min(self.seconds[name])

    def ratio(self, baseline: str, name: str) -> Ratio:
        """How many times as fast as `baseline` is `name`."""
        pairs = [a / b for a, b in zip(self.seconds[baseline], self.seconds[name], strict=True)]
        middle, low, high = _quartiles(pairs) if len(pairs) > 1 else (pairs[0], pairs[0], pairs[0])
        return Ratio(middle, low, high, self.median(baseline) / self.median(name))


def interleave(contenders: Mapping[str, Callable[[], object]], plan: Plan) -> Result:
    """Times every contender `plan.rounds` times, in turns."""
    shuffler = random.Random(plan.seed)
    result = Result({name: [] for name in contenders})
    for call in contenders.values():
        call()  # first calls allocate; they belong to no round
    for _ in range(plan.rounds):
        order = list(contenders)
        shuffler.shuffle(order)
        result.order.append(order)
        for name in order:
            result.seconds[name].append(_block(contenders[name], plan))
    return result


def _block(call: Callable[[], object], plan: Plan) -> float:
    wait_until_idle()
    clock = time.perf_counter
    end = clock() + plan.warm_up
    call()
    while clock() < end:
        call()
    times: list[float] = []
    end = clock() + plan.block
    while not times or clock() < end:
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def _quartiles(values: list[float]) -> tuple[float, float, float]:
    """Median, lower and upper quartile."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def theil_sen(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of y over x: the median of the slopes between all pairs of points.

    Nearly a third of the points may lie anywhere without moving it far. Raises ValueError when there are no
    two points of different x. Its cost grows with the square of the number of points.
    """
    points = list(zip(x, y, strict=True))
    slopes = [
        (y1 - y0) / (x1 - x0) for i, (x0, y0) in enumerate(points) for x1, y1 in points[i + 1 :] if x1 != x0
    ]
    if not slopes:
        raise ValueError(f"no slope of {len(points)} points")
    return statistics.median(slopes)
