"""Waiting for what another thread does: never a measure of how fast it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def until_stats(session: ort.InferenceSession, **wanted: Any) -> None:
    """Until each of these counters has this value."""

    def reached() -> bool:
        stats = vars(tunableop.stats(session))
        return all(stats[name] == value for name, value in wanted.items())

    until(reached, f"stats become {wanted}")
