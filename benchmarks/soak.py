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
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.measure import theil_sen
from benchmarks.small_models import Perceptron, perceptron

SIZES = (64, 128, 32)
CHECK_EVERY = 10
TOLERANCE = 1e-5  # relative to the largest value: some 5000 terms of fp32 in each sum
WARM_UP = 1 / 3  # of the time
MODES = ("background", "online", "cached", "off")
MEGABYTE = 1 << 20


class State(Protocol):
    """What a verdict is made of."""

    @property
    def seconds(self) -> float:
        """Since the beginning."""

    @property
    def rss_mb(self) -> float:
        """Resident memory."""

    @property
    def files(self) -> int:
        """Open ones."""

    @property
    def threads(self) -> int:
        """Of the process."""


_State = TypeVar("_State", bound=State)


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


def process_status(process: int | str = "self") -> dict[str, int]:
    """The numbers of a process' /proc/.../status; sizes in kB."""
    found: dict[str, int] = {}
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        name, _, text = line.partition(":")
        first = text.split()[0] if text.split() else ""
        if first.isdigit():
            found[name] = int(first)
    return found


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


def after_warm_up(samples: Sequence[_State], warm_up: float = WARM_UP) -> list[_State]:
    """All but the first part of the time."""
    end = samples[-1].seconds * warm_up
    return [sample for sample in samples if sample.seconds >= end]


def thinned(samples: Sequence[_State], most: int = 500) -> list[_State]:
    """Every so many of them, that no more than `most` are left: the slope looks at all pairs."""
    return list(samples[:: -(-len(samples) // most)])


@dataclass(frozen=True)
class Verdict:
    """What became of memory, files and threads after warm-up."""

    slope_mb: float  #: in ten minutes
    growth: float  #: that slope over the time after warm-up, relative to the memory at its beginning
    files: tuple[float, float]  #: first and last quarter
    threads: tuple[float, float]

    def missed(self, max_slope: float, max_growth: float) -> list[str]:
        """The bounds that are missed."""
        lines = []
        if not (self.slope_mb < max_slope or self.growth < max_growth):
            lines.append(
                f"memory grows by {self.slope_mb:.2f} MB in ten minutes, {self.growth:.1%} in all; "
                f"expected below {max_slope:g} MB or {max_growth:.1%}"
            )
        for what, (first, last) in (("open files", self.files), ("threads", self.threads)):
            if last > first:
                lines.append(f"{what} grow from {first:g} to {last:g}")
        return lines


def judge(samples: Sequence[State], warm_up: float = WARM_UP) -> Verdict:
    """Raises ValueError when there are too few samples to say anything (eight after warm-up)."""
    rest = after_warm_up(samples, warm_up)
    if len(rest) < 8:
        raise ValueError(f"{len(rest)} samples after warm-up: too few for a verdict")
    few = thinned(rest)
    slope = theil_sen([sample.seconds for sample in few], [sample.rss_mb for sample in few])
    quarter = len(rest) // 4
    base = statistics.median(sample.rss_mb for sample in rest[:quarter])
    ends = rest[:quarter], rest[-quarter:]
    files = statistics.median(s.files for s in ends[0]), statistics.median(s.files for s in ends[1])
    threads = statistics.median(s.threads for s in ends[0]), statistics.median(s.threads for s in ends[1])
    return Verdict(slope * 600, slope * (rest[-1].seconds - rest[0].seconds) / base, files, threads)


def _row(sample: Sample) -> list[object]:
    first = [f"{sample.seconds:.0f}", sample.requests, sample.distinct, f"{sample.rss_mb:.1f}"]
    middle = [sample.files, sample.threads, f"{sample.hit_rate:.1%}"]
    return [*first, *middle, sample.evicted, sample.entries, sample.pending, sample.tuned]


def report(samples: Sequence[Sample], answers: dict[str, Any], verdict: Verdict) -> str:
    """For a person: some twenty of the samples, and what they come to."""
    header = ("seconds", "requests", "sizes", "RSS MB", "files", "threads", "hits", "evicted", "entries")
    rest = after_warm_up(samples)
    return "\n".join(
        [
            common.table((*header, "pending", "tuned"), map(_row, [*thinned(samples[:-1], 20), samples[-1]])),
            "",
            f"{answers['requests']} requests of {answers['distinct']} sizes; {answers['checked']} answers "
            f"compared with numpy, largest difference {answers['difference']:.1e}",
            f"after warm-up ({rest[0].seconds:.0f} s): memory {verdict.slope_mb:+.2f} MB in ten minutes, "
            f"{verdict.growth:+.2%} in {rest[-1].seconds - rest[0].seconds:.0f} s; open files "
            f"{verdict.files[0]:g} -> {verdict.files[1]:g}, threads {verdict.threads[0]:g} -> "
            f"{verdict.threads[1]:g}",
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
    parser.add_argument("--max-slope", type=float, default=1.0, help="MB in ten minutes, for --check (1)")
    parser.add_argument("--max-growth", type=float, default=0.01, help="share of memory, for --check (0.01)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to FILE")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a stated bound is missed")
    args = parser.parse_args(arguments)
    if not args.minutes > 0 or args.largest < 1 or args.rate < 0:
        parser.error("--minutes and --largest must be above 0, and --rate not below")
    print(common.machine_line(), end="\n\n")
    samples, answers = serve(args)
    verdict = judge(samples)
    print(report(samples, answers, verdict))
    results = {"verdict": asdict(verdict), "answers": answers, "samples": [asdict(s) for s in samples]}
    common.write_json(args.json, "soak", args, results)
    found = [f"differs by {answers['difference']:.1e}"] if not answers["difference"] <= TOLERANCE else []
    bad = common.complain("WRONG RESULTS", found)
    bad |= args.check and common.complain("BOUND MISSED", verdict.missed(args.max_slope, args.max_growth))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
