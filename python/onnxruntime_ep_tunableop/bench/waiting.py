"""Waits until a side has measured what it met, so that what is timed afterwards no longer changes."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..errors import TunableOpError
from .sides import Side

PATIENCE_SECONDS = 60.0  # without any progress of the measuring
LOAD_SECONDS = 2.0  # of runs without a deferred problem becoming worth its measurement


def until_measured(
    side: Side,
    progress: Callable[[str, int, int], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Returns when nothing waits to be measured in the background; at once in the other modes.

    A problem is measured in the background once its uses repay that, so runs are made while some do not;
    those that LOAD_SECONDS of runs do not repay stay on the default kernel.

    Raises:
        TunableOpError: nothing was measured for PATIENCE_SECONDS.
    """
    last, changed = (-1, -1), clock()
    while True:
        counters = side.stats()["counters"]
        if counters.get("tuning") != "background":
            return
        waiting = (int(counters["pending"]), int(counters["deferred"]))
        done = int(counters["tuned"])
        progress(f"{side.name} measures in the background", done, done + sum(waiting))
        if waiting != last:
            last, changed = waiting, clock()
        pending, deferred = waiting
        if pending == 0 and (deferred == 0 or clock() - changed > LOAD_SECONDS):
            return
        if clock() - changed > PATIENCE_SECONDS:
            raise TunableOpError(
                f"{pending} problems of {side.name} wait to be measured in the background, and none was "
                f"in {PATIENCE_SECONDS:.0f} s: --tuning online measures at once"
            )
        if deferred:
            side.block(seconds=0.1, calls=None, warmup_calls=0)
        sleep(0.05)  # it measures while nobody is served
