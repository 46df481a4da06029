"""The engine's and the tuner's counters for Prometheus: read when they are asked for, kept nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from .. import _control
from .counters import Counters, Histogram

#: By name and version.
_LABELS = ("model", "version")


@runtime_checkable
class Counting(Protocol):
    """An engine that counts. Called from the event loop only."""

    def counters(self) -> Mapping[tuple[str, str], Counters]:
        """Of requests and batches."""

    def stats(self) -> Mapping[tuple[str, str], _control.Stats]:
        """Of the tuner."""


#: Of Stats: the field, the metric's name, what it is, and whether it only grows.
_TUNER = (
    ("hits", "tunableop_tuner_hits", "Products that ran what the cache knew", True),
    ("misses", "tunableop_tuner_misses", "Products whose problem the cache did not know", True),
    ("tuned", "tunableop_tuner_tuned", "Problems measured", True),
    ("tuning_seconds", "tunableop_tuner_tuning_seconds", "Wall clock spent measuring", True),
    ("evicted", "tunableop_tuner_evicted", "Entries dropped because the cache was full", True),
    ("denied", "tunableop_tuner_denied", "Kernels that lost their place: wrong answers, errors", True),
    ("revalidated", "tunableop_tuner_revalidated", "Problems measured again", True),
    ("entries", "tunableop_tuner_entries", "Problems that the cache knows", False),
    ("pending", "tunableop_tuner_pending", "Problems that wait to be measured in the background", False),
    ("deferred", "tunableop_tuner_deferred", "Problems too rare as yet to be measured", False),
    ("stale", "tunableop_tuner_stale", "Choices that serve and are to be measured again", False),
    ("saved_seconds", "tunableop_tuner_saved_seconds", "Saved against default kernels, as measured", False),
)


class EngineMetrics:
    """A collector of prometheus-client."""

    def __init__(self, engine: Counting) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """At each look at /metrics."""
        yield from _requests(self._engine.counters())
        yield from _tuner(self._engine.stats())


def _requests(every: Mapping[tuple[str, str], Counters]) -> Iterator[Metric]:
    outcomes = CounterMetricFamily(
        "tunableop_model_requests", "Requests to a model, by how they ended", labels=(*_LABELS, "outcome")
    )
    split = CounterMetricFamily(
        "tunableop_model_split_batches", "Batches that failed and were run one by one", labels=_LABELS
    )
    waiting = GaugeMetricFamily("tunableop_model_waiting", "Requests in the queue", labels=_LABELS)
    running = GaugeMetricFamily("tunableop_model_running", "Batches that run", labels=_LABELS)
    latency = _family("tunableop_model_latency_seconds", "Requests answered well, from coming to answer")
    queue = _family("tunableop_model_queue_seconds", "The wait of requests before they are run")
    run = _family("tunableop_model_run_seconds", "Runs of batches")
    batch = _family("tunableop_model_batch_rows", "Rows of a batch")
    for labels, counters in every.items():
        for outcome, number in counters.requests.items():
            outcomes.add_metric((*labels, outcome), number)
        split.add_metric(labels, counters.split)
        waiting.add_metric(labels, counters.waiting)
        running.add_metric(labels, counters.running)
        _add(latency, labels, counters.latency)
        _add(queue, labels, counters.queue)
        _add(run, labels, counters.run)
        _add(batch, labels, counters.batch)
    yield from (outcomes, split, waiting, running, latency, queue, run, batch)


def _tuner(every: Mapping[tuple[str, str], _control.Stats]) -> Iterator[Metric]:
    for field, name, text, grows in _TUNER:
        kind = CounterMetricFamily if grows else GaugeMetricFamily
        family: CounterMetricFamily | GaugeMetricFamily = kind(name, text, labels=_LABELS)
        for labels, stats in every.items():
            family.add_metric(labels, getattr(stats, field))
        yield family
    for field, text in (
        ("fallbacks", "Runs on an unmeasured kernel"),
        ("rejected", "Kernels that lost their place"),
    ):
        by_reason = CounterMetricFamily(f"tunableop_tuner_{field}", text, labels=(*_LABELS, "reason"))
        for labels, stats in every.items():
            for reason, number in getattr(stats, field).items():
                by_reason.add_metric((*labels, reason), number)
        yield by_reason


def _family(name: str, text: str) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, text, labels=_LABELS)


def _add(family: HistogramMetricFamily, labels: tuple[str, str], histogram: Histogram) -> None:
    buckets: list[tuple[str, float]] = []
    up_to = 0
    for bound, number in zip(histogram.bounds, histogram.counts, strict=False):
        up_to += number
        buckets.append((str(float(bound)), up_to))
    buckets.append(("+Inf", histogram.number))
    family.add_metric(labels, buckets, histogram.total)
