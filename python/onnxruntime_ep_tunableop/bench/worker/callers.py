"""Who makes the requests of a block: one caller, or several at the same time."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

from .failure import WorkerError, one_line

#: Warming up takes at least that long. A pool that went to sleep between blocks is slow to wake: on a virtual
#: machine with two processors a product of two threads ran at half its speed for the first 10 ms.
WAKE_SECONDS = 0.05


def wait_until_idle(limit: float = 0.5, window: float = 0.002) -> None:
    """Returns when no thread of this process used a processor for `window` seconds, or after `limit`."""
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        used = time.process_time()
        time.sleep(window)
        if time.process_time() - used < window / 8:
            return


class Caller:
    """One thread's part in a block."""

    def __init__(self, request: Callable[[], Any], call: Callable[[], Any]) -> None:
        self._request = request
        self._call = call
        self.latencies: list[float] = []
        self.warmed = 0  # calls
        self.start = self.stop = 0.0
        self.failure: Exception | None = None

    def warm_up(self, calls: int) -> None:
        """Untimed requests: so many, and for WAKE_SECONDS; none when none are asked for."""
        end = time.perf_counter() + WAKE_SECONDS
        while self.warmed < calls or (calls > 0 and time.perf_counter() < end):
            self._request()
            self.warmed += 1

    def time(self, tickets: Iterator[int], seconds: float | None) -> None:
        """Requests while there are tickets and time. An iterator gives each ticket to one thread only."""
        clock, call, note = time.perf_counter, self._call, self.latencies.append
        self.start = self.stop = clock()
        end = float("inf") if seconds is None else self.start + seconds
        try:
            for _ in tickets:
                begin = clock()
                call()
                now = clock()
                note(now - begin)
                if now >= end:
                    break
        except Exception as error:
            raise WorkerError("run", f"a request failed: {one_line(error)}") from error
        finally:
            self.stop = clock()


def together(callers: list[Caller], warmup_calls: int, tickets: Iterator[int], seconds: float | None) -> None:
    """All callers in a thread each, timed from the moment that all of them are warm."""
    ready = threading.Barrier(len(callers))
    ended = threading.Event()
    counted = itertools.takewhile(lambda _: not ended.is_set(), tickets)

    def work(caller: Caller) -> None:
        try:
            caller.warm_up(warmup_calls)
            ready.wait()
            caller.time(counted, seconds)
        except threading.BrokenBarrierError:
            pass  # another one failed, and says so
        except Exception as error:
            caller.failure = error
            ended.set()
            ready.abort()

    threads = [threading.Thread(target=work, args=(caller,), daemon=True) for caller in callers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:  # Ctrl-C: no request after the present ones
        ended.set()
    for caller in callers:
        if caller.failure is not None:
            raise caller.failure
