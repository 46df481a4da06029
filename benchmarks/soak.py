"""Hours of changing shapes: does memory stay flat, and does every answer stay right?

    python -m benchmarks.soak [--minutes 30] [--tuning background] [--cache-size 256] [--largest 5000]
                              [--rate 100] [--threads 1] [--check] [--json FILE]

Requests of m rows, m drawn from 1 to `--largest` with a chance that falls as 1 / m (Zipf), go through a
perceptron of two layers and a product whose B is computed and whose k is m: three problems for each m, of
which the cache holds a few. Requests arrive at random, `--rate` a second on average (0: one after another),
so that there are idle moments to measure in. Every tenth answer is compared with numpy.

Every ten seconds: resident memory, open files, threads, and the session's counters. The first third of the
samples is warm-up. Over the rest, memory is flat when its Theil-Sen slope is below `--max-slope` MB in ten
minutes, or what it would make over that time is below `--max-growth` of what there was; files and threads
must not grow (median of the last quarter against the first).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from benchmarks import common, flat
from benchmarks.flat import Verdict, judge, process_status, thinned
from benchmarks.small_models import Perceptron, perceptron

SIZES = (64, 128, 32)
CHECK_EVERY = 10
TOLERANCE = 1e-5  # relative to the largest value: some 5000 terms of fp32 in each sum
WARM_UP = 1 / 3  # of the time
MODES = ("background", "online", "cached", "off")


@dataclass(frozen=True)
class Sample:
    """The process and the session at one moment. `hit_rate`: of the calls since the sample before."""

    seconds: float
    requests: int
    distinct: int
    rss_mb: float
    files: int
    threads: int
    hit_rate: float
    evicted: int
    entries: int
    pending: int
    tuned: int


class Watch:
    """Takes samples of this process and of one session."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self._session = session
        self._start = time.perf_counter()
        self._hits = self._calls = 0

    def sample(self, requests: int, distinct: int) -> Sample:
        """The state now."""
        import onnxruntime_ep_tunableop as tunableop

        numbers = tunableop.stats(self._session)
        hits, calls = numbers.hits, numbers.hits + numbers.misses
        new_hits, new_calls = hits - self._hits, calls - self._calls
        self._hits, self._calls = hits, calls
        status = process_status()
        return Sample(
            seconds=time.perf_counter() - self._start,
            requests=requests,
            distinct=distinct,
            rss_mb=status["VmRSS"] / 1024,
            files=sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1,  # without the one that lists
            threads=status["Threads"],
            hit_rate=new_hits / new_calls if new_calls else 0.0,
            evicted=numbers.evicted,
            entries=numbers.entries,
            pending=common.pending(self._session),
            tuned=numbers.tuned,
        )


class Sizes:
    """Draws m from 1 to `largest` with a chance proportional to 1 / m."""

    def __init__(self, largest: int, seed: int) -> None:
        self._cumulative = np.cumsum(1.0 / np.arange(1, largest + 1))
        self._draw = random.Random(seed)

    def __call__(self) -> int:
        """The next one."""
        where = self._draw.random() * float(self._cumulative[-1])
        return int(np.searchsorted(self._cumulative, where, side="right")) + 1


def wrong(outputs: Sequence[NDArray[Any]], net: Perceptron, x: NDArray[np.float32]) -> float:
    """By how much y and g differ from numpy's, relative to the largest value of each.

    64 rows at a time, so that checking leaves the heap as it is.
    """
    y, g = outputs
    worst, total = 0.0, np.zeros(g.shape)
    for start in range(0, len(x), 64):
        piece = slice(start, start + 64)
        exact, part = net.expected(x[piece])
        worst, total = max(worst, common.difference([y[piece]], [exact])), total + part
    return max(worst, common.difference([g], [total]))


def serve(args: argparse.Namespace) -> tuple[list[Sample], dict[str, Any]]:
    """Sends requests until the time is over; returns the samples, and what the answers were worth."""
    import onnxruntime_ep_tunableop as tunableop

    net = perceptron(SIZES, gram=True)
    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.log_severity_level = 3
    session = tunableop.InferenceSession(net.model(), options, tuning=args.tuning, cache_size=args.cache_size)
    rows = net.feed(args.largest)["x"]
    sizes, gaps = Sizes(args.largest, seed=1), random.Random(2)
    interval = min(10.0, args.minutes)  # 60 samples at least
    # The largest request first: what the heaps grow to for it must not come in the midst.
    worst = wrong(session.run(None, {"x": rows}), net, rows)
    checked, requests, seen = 1, 0, set[int]()
    watch = Watch(session)
    samples: list[Sample] = []
    start = arrival = due = time.perf_counter()
    end = start + args.minutes * 60
    while (now := time.perf_counter()) < end:
        if now >= due:
            samples.append(watch.sample(requests, len(seen)))
            due += interval
        if args.rate > 0:
            arrival = max(arrival + gaps.expovariate(args.rate), now - 1.0)  # it does not hurry for ever
            time.sleep(max(0.0, arrival - now))
        m = sizes()
        first = gaps.randrange(args.largest - m + 1)
        x = rows[first : first + m]
        outputs = session.run(None, {"x": x})
        seen.add(m)
        if requests % CHECK_EVERY == 0:
            worst, checked = max(worst, wrong(outputs, net, x)), checked + 1
        requests += 1
    samples.append(watch.sample(requests, len(seen)))
    return samples, {"requests": requests, "distinct": len(seen), "checked": checked, "difference": worst}


def _row(sample: Sample) -> list[object]:
    first = [f"{sample.seconds:.0f}", sample.requests, sample.distinct, f"{sample.rss_mb:.1f}"]
    middle = [sample.files, sample.threads, f"{sample.hit_rate:.1%}"]
    return [*first, *middle, sample.evicted, sample.entries, sample.pending, sample.tuned]


def report(samples: Sequence[Sample], answers: dict[str, Any], verdict: Verdict) -> str:
    """For a person: some twenty of the samples, and what they come to."""
    header = ("seconds", "requests", "sizes", "RSS MB", "files", "threads", "hits", "evicted", "entries")
    return "\n".join(
        [
            common.table((*header, "pending", "tuned"), map(_row, [*thinned(samples[:-1], 20), samples[-1]])),
            "",
            f"{answers['requests']} requests of {answers['distinct']} sizes; {answers['checked']} answers "
            f"compared with numpy, largest difference {answers['difference']:.1e}",
            str(verdict),
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 1 for a wrong answer or a bound missed."""
    parser = argparse.ArgumentParser(description="Changing shapes for a long time.")
    parser.add_argument("--minutes", type=float, default=30, help="how long (30)")
    parser.add_argument("--tuning", choices=MODES, default="background", help="mode (background)")
    parser.add_argument("--cache-size", type=int, default=256, help="problems that the cache holds (256)")
    parser.add_argument("--largest", type=int, default=5000, help="rows of a request at most (5000)")
    parser.add_argument("--rate", type=float, default=100, help="requests a second; 0: no pauses (100)")
    parser.add_argument("--threads", type=int, default=1, help="of the session (1)")
    flat.add_arguments(parser)
    args = parser.parse_args(arguments)
    if not args.minutes > 0 or args.largest < 1 or args.rate < 0:
        parser.error("--minutes and --largest must be above 0, and --rate not below")
    print(common.machine_line(), end="\n\n")
    samples, answers = serve(args)
    verdict = judge(samples, WARM_UP)
    print(report(samples, answers, verdict))
    found = [f"differs by {answers['difference']:.1e}"] if not answers["difference"] <= TOLERANCE else []
    return flat.conclude("soak", args, samples, answers, verdict, found)


if __name__ == "__main__":
    sys.exit(main())
