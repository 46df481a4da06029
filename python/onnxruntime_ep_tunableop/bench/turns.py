"""What is compared runs in turns, and meets the same machine.

One round gives every side one block of calls, in an order drawn anew and recorded. A drift of the machine
then meets all sides of a round alike, and a ratio of sides is taken from the medians of rounds, in pairs. Who
comes after whom is left to chance, so that no side always finds the caches as the same other one left them.

Between blocks this process is waited for until it is idle: the pool of an ONNX Runtime session spins for tens
of milliseconds after its last run, and would take a core from the next side.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from .figures import Interval, Throughput, bootstrap_ratio, throughput

#: For an interval: all that four rounds span holds the median in 7 of 8 cases only, of five in 15 of 16.
LEAST_ROUNDS = 5
MOST_ROUNDS = 12

#: See worker/callers.py, which stands alone.
WAKE_SECONDS = 0.05

#: What goes on, how many steps are done, and of how many.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """How much to measure. One of `seconds` and `calls` says how long a block is.

    `warmup_calls` run untimed before each block, for WAKE_SECONDS at least unless there are none: whoever ran
    before left its own operands in the caches, and pools are asleep.
    """

    rounds: int = 15
    seconds: float | None = 0.1
    calls: int | None = None
    warmup_calls: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a plan that measures nothing."""
        if (self.seconds is None) == (self.calls is None):
            raise ValueError("a block has a length in seconds or in calls: give one of them")
        if self.rounds < 1 or self.warmup_calls < 0:
            raise ValueError(
                f"{self.rounds} rounds, {self.warmup_calls} calls to warm up: nothing to measure"
            )
        if (self.calls is not None and self.calls < 1) or (self.seconds is not None and self.seconds <= 0.0):
            raise ValueError(f"a block of {self.calls or self.seconds} is no block")


@dataclass(frozen=True)
class Timing:
    """One block: `wall_seconds` from the start of its first timed call to the end of its last.

    With calls at the same time, the latencies add up to more than that.
    """

    wall_seconds: float
    latencies: tuple[float, ...]


class Timed(Protocol):
    """A side: something whose calls can be timed, here or elsewhere."""

    def block(self, *, seconds: float | None, calls: int | None, warmup_calls: int) -> Timing:
        """Calls untimed (`warmup_calls`: see Plan), then for `seconds` (once at least) or `calls` times."""


@dataclass(frozen=True)
class Block:
    """What one side did in one round, counted from 0."""

    side: str
    round: int
    timing: Timing


@dataclass(frozen=True)
class Turns:
    """All blocks in the order in which they ran, and the order of each round."""

    blocks: tuple[Block, ...]
    order: tuple[tuple[str, ...], ...]

    def timings(self, side: str) -> list[Timing]:
        """The blocks of one side, round by round. Raises KeyError when there is no such side."""
        found = [block.timing for block in self.blocks if block.side == side]
        if not found:
            raise KeyError(side)
        return found

    def latencies(self, side: str) -> list[float]:
        """Seconds of every call of one side, in their order."""
        return [seconds for timing in self.timings(side) for seconds in timing.latencies]

    def round_medians(self, side: str) -> list[float]:
        """The median call of each round, in seconds."""
        return [statistics.median(timing.latencies) for timing in self.timings(side)]

    def ratio(self, baseline: str, side: str, seed: int = 0) -> Interval:
        """How many times as fast as `baseline` is `side`; the rounds are drawn in pairs.

        Of the medians over all rounds; `seed` draws the rounds of which the interval is made. Of fewer than
        LEAST_ROUNDS there is none: its ends are NaN.
        """
        above, below = self.round_medians(baseline), self.round_medians(side)
        ratio = bootstrap_ratio(above, below, paired=True, seed=seed)
        return ratio if len(above) >= LEAST_ROUNDS else Interval(ratio.value, math.nan, math.nan)

    def throughput(self, side: str) -> Throughput:
        """Calls per second of wall clock."""
        timings = self.timings(side)
        return throughput([len(one.latencies) for one in timings], [one.wall_seconds for one in timings])


def take_turns(sides: Mapping[str, Timed], plan: Plan, progress: Progress | None = None) -> Turns:
    """Gives every side `plan.rounds` blocks, in turns.

    `progress` is told after each block. Raises RuntimeError when a side answers with a block without a call;
    what a side raises itself passes through.
    """
    shuffler = random.Random(plan.seed)
    blocks: list[Block] = []
    orders: list[tuple[str, ...]] = []
    for number in range(plan.rounds):
        order = list(sides)
        shuffler.shuffle(order)
        orders.append(tuple(order))
        for name in order:
            wait_until_idle()
            timing = sides[name].block(seconds=plan.seconds, calls=plan.calls, warmup_calls=plan.warmup_calls)
            if not timing.latencies:
                raise RuntimeError(f"side '{name}' made no call in round {number}")
            blocks.append(Block(name, number, timing))
            if progress is not None:
                progress(f"measuring {name}", len(blocks), plan.rounds * len(sides))
    return Turns(tuple(blocks), tuple(orders))


@dataclass(frozen=True)
class Calls:
    """A side that is a function of this process."""

    call: Callable[[], object]

    def block(self, *, seconds: float | None, calls: int | None, warmup_calls: int) -> Timing:
        """Times single calls; what stands between them counts for the wall clock."""
        clock, call = time.perf_counter, self.call
        warm, end = 0, clock() + WAKE_SECONDS
        while warm < warmup_calls or (warmup_calls > 0 and clock() < end):
            call()
            warm += 1
        times: list[float] = []
        begin = end = clock()
        while len(times) < calls if calls is not None else not times or end - begin < (seconds or 0.0):
            start = clock()
            call()
            end = clock()
            times.append(end - start)
        return Timing(end - begin, tuple(times))


def wait_until_idle(limit: float = 0.5, window: float = 0.002) -> None:
    """Returns when no thread of this process used the CPU for `window` seconds, or after `limit`."""
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(window)
        if time.process_time() - used < window / 8:
            return


def blocks_of(iterations: int, concurrency: int) -> tuple[int, int]:
    """Rounds, and calls in each: as few more than asked for as may be, and some for every caller."""
    most = min(MOST_ROUNDS, iterations // concurrency)
    found = [(rounds, math.ceil(iterations / rounds)) for rounds in range(min(LEAST_ROUNDS, most), most + 1)]
    return min(found, key=lambda block: (block[0] * block[1], -block[0]))
