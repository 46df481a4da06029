"""Do memory, open files and threads of a process stay flat? What the soaks are judged by."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks import common
from benchmarks.measure import theil_sen


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


def process_status(process: int | str = "self") -> dict[str, int]:
    """The numbers of a process' /proc/.../status; sizes in kB."""
    found: dict[str, int] = {}
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        name, _, text = line.partition(":")
        first = text.split()[0] if text.split() else ""
        if first.isdigit():
            found[name] = int(first)
    return found


def after_warm_up(samples: Sequence[_State], warm_up: float) -> list[_State]:
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
    between: tuple[float, float]  #: seconds: the time after warm-up
    rss_mb: float  #: median over that time

    def __str__(self) -> str:
        """For a person, in a line."""
        return (
            f"after warm-up ({self.between[0]:.0f} to {self.between[1]:.0f} s): memory "
            f"{self.slope_mb:+.2f} MB in ten minutes, {self.growth:+.2%} in all "
            f"(median {self.rss_mb:.1f} MB); open files "
            f"{self.files[0]:g} -> {self.files[1]:g}, threads {self.threads[0]:g} -> {self.threads[1]:g}"
        )

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


def judge(samples: Sequence[State], warm_up: float) -> Verdict:
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
    between = rest[0].seconds, rest[-1].seconds
    growth = slope * (between[1] - between[0]) / base
    return Verdict(
        slope * 600, growth, files, threads, between, statistics.median(sample.rss_mb for sample in rest)
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Bounds, and where samples go."""
    parser.add_argument("--max-slope", type=float, default=1.0, help="MB in ten minutes, for --check (1)")
    parser.add_argument("--max-growth", type=float, default=0.01, help="share of memory, for --check (0.01)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to FILE")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a stated bound is missed")


def conclude(
    benchmark: str,
    args: argparse.Namespace,
    samples: Sequence[Any],
    answers: dict[str, Any],
    verdict: Verdict,
    wrong: Sequence[str],
) -> int:
    """Writes the file and complains; returns the exit status.

    1 for wrong answers, and with --check for bounds missed. `samples` are dataclasses.
    """
    results = {"verdict": asdict(verdict), "answers": answers, "samples": [asdict(s) for s in samples]}
    common.write_json(args.json, benchmark, args, results)
    bad = common.complain("WRONG RESULTS", wrong)
    bad |= args.check and common.complain("BOUND MISSED", verdict.missed(args.max_slope, args.max_growth))
    return 1 if bad else 0
