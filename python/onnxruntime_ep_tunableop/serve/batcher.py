"""Requests into batches, in the event loop. What a batch is and how it runs, others know."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .counters import Counters
from .pace import Pace
from .protocol import Kind, ProtocolError

_T = TypeVar("_T")
_R = TypeVar("_R")

#: Starts a run of items; gives the outcome of each, and what stops the run when nobody wants it any more.
Start = Callable[[Sequence[_T]], tuple["asyncio.Future[Sequence[_R | BaseException]]", Callable[[], None]]]


@dataclass(frozen=True)
class Limits:
    """Of one batcher."""

    instances: int  #: runs at a time
    max_batch: int  #: rows
    max_delay: float  #: seconds
    queue_size: int  #: requests


@dataclass(eq=False)
class _Entry(Generic[_T, _R]):
    """A request, from its coming to its answer."""

    item: _T
    rows: int
    key: Hashable
    deadline: float | None
    number: int  #: of coming
    since: float
    company: bool  #: others were there when it came
    answer: asyncio.Future[_R]
    queued: bool = True
    run: _Run[_T, _R] | None = None


@dataclass(eq=False)
class _Run(Generic[_T, _R]):
    """A batch that runs."""

    entries: list[_Entry[_T, _R]]
    since: float
    wanted: int  #: how many still wait for it
    stop: Callable[[], None] = field(default=lambda: None)


class Batcher(Generic[_T, _R]):
    """A queue with a limit, and `instances` runs at a time of up to `max_batch` rows.

    A request that comes when no other is there is run at once. Otherwise those that wait are run together as
    soon as an instance is free and enough are there (see Pace). Only items with equal keys share a batch; of
    several such groups, the one with the oldest request comes first.
    """

    def __init__(
        self,
        limits: Limits,
        start: Start[_T, _R],
        counters: Counters,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._start_run = start
        self._counters = counters
        self._clock = clock
        self._pace = Pace(limits.instances, limits.max_batch, limits.max_delay)
        self._groups: dict[Hashable, deque[_Entry[_T, _R]]] = {}
        self._runs: set[_Run[_T, _R]] = set()
        self._numbers = itertools.count()
        self._waiting = 0
        self._present = 0
        self._free_since = clock()
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.Handle | None = None
        self._closed: Callable[[], ProtocolError] | None = None
        self._idle: list[asyncio.Future[None]] = []

    async def submit(self, item: _T, rows: int, key: Hashable, deadline: float | None = None) -> _R:
        """The outcome of a run of this item. `rows` 0: it shares no batch. `deadline`: of the clock.

        Raises:
            ProtocolError: BUSY, DEADLINE, UNAVAILABLE (after `close`), or what the run says.
        """
        now = self._clock()
        self._admit(now, deadline)
        loop = asyncio.get_running_loop()
        entry: _Entry[_T, _R] = _Entry(
            item,
            rows,
            key if rows else object(),
            deadline,
            next(self._numbers),
            now,
            self._present > 0,
            loop.create_future(),
        )
        self._present += 1
        self._pace.came(self._present)
        self._groups.setdefault(entry.key, deque()).append(entry)
        self._count(+1)
        self._look_soon(loop)
        timer = None if deadline is None else loop.call_later(deadline - now, _expire, entry.answer)
        try:
            return await entry.answer
        finally:
            if timer is not None:
                timer.cancel()
            self._leave(entry)
            del entry  # an error's traceback holds this frame, and the entry the error

    def close(self, error: Callable[[], ProtocolError]) -> None:
        """Takes no more: who comes gets an `error`. What waits is run without delay."""
        self._closed = error
        self._consider()

    async def drain(self) -> None:
        """Returns when nothing waits or runs."""
        while self._present or self._runs:
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle

    def give_up(self, error: Callable[[], ProtocolError]) -> None:
        """Answers everything with an `error` now, and stops what runs as soon as it can be."""
        waiting = [entry for group in self._groups.values() for entry in group]
        for entry in (*waiting, *(entry for run in self._runs for entry in run.entries)):
            if not entry.answer.done():
                entry.answer.set_exception(error())

    @property
    def pace(self) -> Pace:
        """What it has seen so far."""
        return self._pace

    def _admit(self, now: float, deadline: float | None) -> None:
        if self._closed is not None:
            raise self._closed()
        if self._waiting >= self._limits.queue_size:
            raise ProtocolError(
                Kind.BUSY,
                f"the queue is full: {self._waiting} requests wait already",
                retry_after=self._pace.until_free(self._waiting),
            )
        if deadline is not None and deadline <= now:
            raise _late()

    def _look_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Once the requests that came in the same turn of the loop are here, too."""
        if self._soon is None and len(self._runs) < self._limits.instances:
            self._soon = loop.call_soon(self._consider)

    def _consider(self) -> None:
        """Starts what is to be started now."""
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        self._soon = self._later = None
        while self._groups and len(self._runs) < self._limits.instances:
            now = self._clock()
            oldest = min(self._groups.values(), key=lambda group: group[0].number)
            if (wait := self._hold(oldest, now)) > 0.0:
                self._later = asyncio.get_running_loop().call_later(wait, self._consider)
                return
            if batch := self._take(oldest, now):
                self._start(batch, now)

    def _hold(self, group: deque[_Entry[_T, _R]], now: float) -> float:
        """How long to wait for more."""
        if self._closed is not None or self._waiting >= self._pace.wanted:
            return 0.0
        if not group[0].company and len(group) == 1:
            return 0.0
        if not group[0].rows or sum(entry.rows for entry in group) >= self._limits.max_batch:
            return 0.0
        end = max(group[0].since, self._free_since) + self._pace.patience
        if end <= now and self._pace.patience > 0.0:
            self._pace.in_vain(self._present)
        return end - now

    def _take(self, group: deque[_Entry[_T, _R]], now: float) -> list[_Entry[_T, _R]]:
        batch: list[_Entry[_T, _R]] = []
        rows = 0
        while group and (not batch or rows + group[0].rows <= self._limits.max_batch):
            entry = group.popleft()
            entry.queued = False
            self._count(-1)
            if entry.answer.done():
                continue
            if entry.deadline is not None and self._pace.too_late(entry.deadline - now):
                entry.answer.set_exception(_late())
                continue
            batch.append(entry)
            rows += entry.rows
        if not group and batch:
            del self._groups[batch[0].key]
        elif not group:
            self._groups = {key: left for key, left in self._groups.items() if left}
        return batch

    def _start(self, batch: list[_Entry[_T, _R]], now: float) -> None:
        run = _Run(batch, now, len(batch))
        for entry in batch:
            entry.run = run
            self._counters.queue.add(now - entry.since)
        self._counters.batch.add(sum(entry.rows for entry in batch))
        self._pace.started(self._present)
        self._runs.add(run)
        self._counters.running = len(self._runs)
        try:
            outcomes, run.stop = self._start_run([entry.item for entry in batch])
        except Exception as error:  # else the instance would never be free again
            outcomes = asyncio.get_running_loop().create_future()
            outcomes.set_exception(error)
        outcomes.add_done_callback(lambda done: self._ended(run, done))

    def _ended(self, run: _Run[_T, _R], done: asyncio.Future[Sequence[_R | BaseException]]) -> None:
        now = self._clock()
        self._runs.discard(run)
        self._counters.running = len(self._runs)
        self._counters.run.add(now - run.since)
        self._free_since = now
        failure = done.exception()
        if failure is None:
            self._pace.ended(now - run.since)
        outcomes = [failure] * len(run.entries) if failure is not None else done.result()
        for entry, outcome in zip(run.entries, outcomes, strict=True):
            if entry.answer.done():
                continue
            if isinstance(outcome, BaseException):
                entry.answer.set_exception(outcome)
            else:
                entry.answer.set_result(outcome)
        self._consider()
        self._tell_idle()

    def _leave(self, entry: _Entry[_T, _R]) -> None:
        """It has its answer, or nobody wants one any more."""
        self._present -= 1
        if entry.answer.done() and not entry.answer.cancelled():
            entry.answer.exception()  # seen: asyncio would complain if it came as the request was cancelled
        if entry.queued:
            group = self._groups[entry.key]
            group.remove(entry)
            if not group:
                del self._groups[entry.key]
            entry.queued = False
            self._count(-1)
        elif entry.run is not None:
            entry.run.wanted -= 1
            if entry.run.wanted == 0 and entry.run in self._runs:
                entry.run.stop()
            entry.run = None  # which holds the other entries of the batch
        self._tell_idle()

    def _count(self, change: int) -> None:
        self._waiting += change
        self._counters.waiting = self._waiting

    def _tell_idle(self) -> None:
        if not self._present and not self._runs:
            for idle in self._idle:
                if not idle.done():
                    idle.set_result(None)
            self._idle.clear()


def _late() -> ProtocolError:
    return ProtocolError(Kind.DEADLINE, "the deadline of the request is over, or would be before its end")


def _expire(answer: asyncio.Future[_R]) -> None:
    if not answer.done():
        answer.set_exception(_late())
