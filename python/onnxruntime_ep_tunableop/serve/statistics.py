"""A model's counts and times as Triton's clients read them."""

from __future__ import annotations

from typing import Any

from .counters import OK, Counters, Histogram
from .engine_metrics import Counting
from .interface import Serving

_NANOSECONDS = 1_000_000_000

#: No failures of the model: the client's doing, or nobody's.
_NO_FAILURE = (OK, "cancelled")


def model_statistics(engine: Serving, name: str = "", version: str = "") -> list[dict[str, Any]]:
    """Of one model, or of every one; none where the engine does not count. NOT_FOUND as of `metadata`."""
    if name:
        engine.model_ready(name, version)
    if not isinstance(engine, Counting):
        return []
    return [
        _of(model, number, counters)
        for (model, number), counters in engine.counters().items()
        if name in ("", model) and version in ("", number)
    ]


def _of(name: str, version: str, counters: Counters) -> dict[str, Any]:
    failed = sum(number for outcome, number in counters.requests.items() if outcome not in _NO_FAILURE)
    return {
        "name": name,
        "version": version,
        "inference_count": counters.requests.get(OK, 0),
        "execution_count": counters.run.number,
        "inference_stats": {
            "success": _duration(counters.latency),
            "fail": {"count": failed, "ns": 0},
            "queue": _duration(counters.queue),
            "compute_infer": _duration(counters.run),
        },
    }


def _duration(histogram: Histogram) -> dict[str, int]:
    return {"count": histogram.number, "ns": int(histogram.total * _NANOSECONDS)}
