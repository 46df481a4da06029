"""What replicas tell each other: who is there, what all are to do, and what was measured.

One of it for an application, as an actor; it knows nothing of Ray. Methods are coroutines of one event loop.
When it is lost and made anew, replicas tell it again what they know.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ... import _core
from ..saving import lines
from .picture import (
    Picture,
    Report,
    add_counters,
    add_stats,
    past_counters,
    past_stats,
    summed,
)
from .traffic import Refusal

#: Seconds without a report after which a replica is taken for gone. Loading a model keeps Python busy for
#: some seconds at times.
GONE_AFTER = 10.0
#: Seconds after which what a gone replica counted is added up: before, it may have been only slow.
_FORGET_AFTER = 3600.0
#: Seconds for which a replica that measures before it is ready keeps others waiting without a sign of life.
_LEASE = 10.0

LOAD, UNLOAD = "load", "unload"


@dataclass(frozen=True)
class Order:
    """For every replica. Numbers grow."""

    number: int
    what: str  #: LOAD or UNLOAD
    model: str


@dataclass(frozen=True)
class Pulse:
    """The answer to a report."""

    orders: Sequence[Order]  #: those that the replica has not carried out
    versions: Mapping[str, str]  #: by model: of the results that are known here


@dataclass(frozen=True)
class Joined:
    """What a replica hears that is to start."""

    order: int  #: it starts as this one and those before would have left it
    unloaded: Sequence[str]


@dataclass(frozen=True)
class Look:
    """The answer to a front end."""

    picture: Picture
    results: Mapping[str, str]  #: by model: those that it does not know yet
    versions: Mapping[str, str]  #: of all that there are


@dataclass
class _Seen:
    report: Report
    at: float


@dataclass
class _Open:
    """An order that replicas are at."""

    order: Order
    waited: set[str]
    refusals: list[Refusal] = field(default_factory=list)


class Board:
    """See the module. Seconds are of `clock`."""

    def __init__(
        self, seeds: Mapping[str, str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`seeds`: results by model, as files of results hold them."""
        self._clock = clock
        self._folder = tempfile.TemporaryDirectory(prefix="tunableop-")
        self._seen: dict[str, _Seen] = {}
        self._past = Picture()
        self._last = 0
        self._orders: dict[str, Order] = {}  # the last one of each model
        self._open: list[_Open] = []
        self._versions: dict[str, str] = {}
        self._lease: dict[str, tuple[str, float]] = {}
        for model, text in (seeds or {}).items():
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # a damaged file
                version_of(text)
                self._merge(model, text)

    async def join(self) -> Joined:
        """Before a replica makes its engine."""
        unloaded = [order.model for order in self._orders.values() if order.what == UNLOAD]
        return Joined(self._last, unloaded)

    async def report(self, report: Report) -> Pulse:
        """Every now and then, from each replica."""
        self._seen[report.replica] = _Seen(report, self._clock())
        self._last = max(self._last, report.orders)  # a new board after an old one
        orders = sorted(
            (order for order in self._orders.values() if order.number > report.orders),
            key=lambda order: order.number,
        )
        return Pulse(orders, dict(self._versions))

    async def done(self, replica: str, number: int, refusal: Refusal | None) -> None:
        """A replica has carried out an order, or could not."""
        for entry in self._open:
            if entry.order.number == number and replica in entry.waited:
                entry.waited.discard(replica)
                if refusal is not None:
                    entry.refusals.append(refusal)

    async def leave(self, replica: str) -> None:
        """A replica ends."""
        if (seen := self._seen.pop(replica, None)) is not None:
            self._add_up(seen.report)

    async def order(self, what: str, model: str) -> Refusal | None:
        """Until every replica that is there has done it; what the first one said that could not."""
        self._last += 1
        before = self._orders.get(model)
        order = self._orders[model] = Order(self._last, what, model)
        entry = _Open(order, set(self._living()))
        self._open.append(entry)
        try:
            while entry.waited.intersection(self._living()) and self._orders.get(model) is order:
                await asyncio.sleep(0.05)
        finally:
            self._open.remove(entry)
        refusal = next(iter(entry.refusals), None)
        if refusal is not None and self._orders.get(model) is order:
            # Those that come later are to be as those that are there.
            del self._orders[model]
            if before is not None:
                self._orders[model] = before
        return refusal

    async def look(self, known: Mapping[str, str]) -> Look:
        """For a front end that has results of these versions."""
        news = {model: self._text(model) for model, at in self._versions.items() if known.get(model) != at}
        living = self._living()
        replicas = [seen.report for replica, seen in self._seen.items() if replica in living]
        past = self._past
        for replica, seen in self._seen.items():
            if replica not in living:
                past = _with(past, seen.report)
        return Look(Picture(replicas, past.past, past.past_stats), news, dict(self._versions))

    async def exchange(self, model: str, text: str | None) -> tuple[str, str | None]:
        """Takes results, gives those of all: their version, and they."""
        if text is not None:
            self._merge(model, text)
        if model not in self._versions:
            return "", None
        return self._versions[model], self._text(model)

    async def lease(self, kind: str, replica: str) -> bool:
        """Whether a replica may measure before it is ready; to be asked again while it does."""
        now = self._clock()
        holder, until = self._lease.get(kind, ("", 0.0))
        if holder != replica and until > now:
            return False
        self._lease[kind] = (replica, now + _LEASE)
        return True

    async def release(self, kind: str, replica: str) -> None:
        """It is ready, and what it measured is here."""
        if self._lease.get(kind, ("", 0.0))[0] == replica:
            del self._lease[kind]

    def _living(self) -> set[str]:
        now = self._clock()
        for replica, seen in list(self._seen.items()):
            if now - seen.at > _FORGET_AFTER:
                del self._seen[replica]
                self._add_up(seen.report)
        return {replica for replica, seen in self._seen.items() if now - seen.at <= GONE_AFTER}

    def _add_up(self, report: Report) -> None:
        self._past = _with(self._past, report)

    def _path(self, model: str) -> Path:
        # Names of models are names of files, but this is no place to rely on it.
        return Path(self._folder.name) / f"{hashlib.sha256(model.encode()).hexdigest()}.json"

    def _text(self, model: str) -> str:
        return self._path(model).read_text(encoding="utf-8")

    def _merge(self, model: str, text: str) -> None:
        path = self._path(model)
        source = path.with_suffix(".in")
        source.write_text(text, encoding="utf-8")
        _core.merge_results(path, [source])
        source.unlink()
        if path.exists():
            self._versions[model] = version_of(path.read_text(encoding="utf-8"))


def version_of(text: str) -> str:
    """Equal for results that differ only in how often they were used."""
    parts = sorted(
        json.dumps(section.get("fingerprint"), sort_keys=True) + line
        for section in json.loads(text)["machines"]
        for line in lines([section])
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _with(past: Picture, report: Report) -> Picture:
    """What a replica that is gone counted, too."""
    counters = {key: past_counters(value) for key, value in report.counters.items()}
    stats = {key: past_stats(value) for key, value in report.stats.items()}
    return Picture(
        past=summed((past.past, counters), add_counters),
        past_stats=summed((past.past_stats, stats), add_stats),
    )
