"""Numbers of a model in service. Written in the event loop only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: Upper bounds of the histograms' bins, in seconds and in rows; one more bin takes what is above.
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

OK = "ok"


class Histogram:
    """How often values fell into bins. A value that equals a bound is in that bound's bin."""

    __slots__ = ("bounds", "counts", "number", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.number = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        """Counts a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.number += 1
        self.total += value

    def snapshot(self) -> dict[str, Any]:
        """For JSON: `counts` has one more than `bounds`."""
        return {
            "bounds": list(self.bounds),
            "counts": list(self.counts),
            "number": self.number,
            "total": self.total,
        }


def _seconds() -> Histogram:
    return Histogram(SECONDS)


def _rows() -> Histogram:
    return Histogram(ROWS)


@dataclass
class Counters:
    """Of one version of a model, since the server began: loading it anew goes on counting."""

    requests: dict[str, int] = field(default_factory=dict)  #: by outcome: OK, "cancelled", a Kind's value
    latency: Histogram = field(default_factory=_seconds)  #: of requests answered well, from coming to answer
    queue: Histogram = field(default_factory=_seconds)  #: of requests that were run: the wait before
    run: Histogram = field(default_factory=_seconds)  #: of runs of a batch
    batch: Histogram = field(default_factory=_rows)  #: rows of a batch; 0 where a model has none
    split: int = 0  #: batches that failed, and whose requests were run one by one
    waiting: int = 0  #: requests in the queue now
    running: int = 0  #: batches that run now

    def answered(self, outcome: str) -> None:
        """One request has an answer, or an error."""
        self.requests[outcome] = self.requests.get(outcome, 0) + 1

    def snapshot(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "requests": dict(self.requests),
            "latency_seconds": self.latency.snapshot(),
            "queue_seconds": self.queue.snapshot(),
            "run_seconds": self.run.snapshot(),
            "batch_rows": self.batch.snapshot(),
            "split_batches": self.split,
            "waiting": self.waiting,
            "running": self.running,
        }
