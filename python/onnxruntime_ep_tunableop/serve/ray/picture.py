"""What replicas say of themselves, and what that is together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from ... import _control
from ..counters import Counters, Histogram
from ..protocol import ModelMetadata, ModelState

#: A model's name and version.
Key = tuple[str, str]

READY, LOADING = "READY", "LOADING"

#: Of the tuner's counters: what replicas share, so that the sum of theirs would say nothing.
_COMMON = ("entries", "stale")


@dataclass(frozen=True)
class Report:
    """Of one replica, at one time."""

    replica: str
    node: str
    pid: int
    ready: bool
    orders: int  #: the last order that was carried out
    states: Sequence[ModelState]
    models: Mapping[Key, ModelMetadata]  #: those in service
    counters: Mapping[Key, Counters]
    stats: Mapping[Key, _control.Stats]


@dataclass(frozen=True)
class Picture:
    """Of all replicas, and of those that are gone what they had counted."""

    replicas: Sequence[Report] = ()
    past: Mapping[Key, Counters] = field(default_factory=dict)
    past_stats: Mapping[Key, _control.Stats] = field(default_factory=dict)

    def ready(self) -> bool:
        """A replica is."""
        return any(report.ready for report in self.replicas)

    @cached_property
    def states(self) -> Sequence[ModelState]:
        """Of each version the best one, but LOADING where a replica still loads what it has not."""
        together: dict[Key, tuple[int, ModelState]] = {}
        for report in self.replicas:
            for state in report.states:
                key, rank = (state.name, state.version), _rank(state, report)
                if key not in together or rank > together[key][0]:
                    together[key] = (rank, state)
        return [state for _, state in together.values()]

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[ModelState]]:
        """The same, of each model."""
        names: dict[str, list[ModelState]] = {}
        for state in self.states:
            names.setdefault(state.name, []).append(state)
        return names

    def metadata(self, name: str, version: str) -> ModelMetadata | None:
        """Of one that is in service somewhere; version "" is the newest."""
        return self._metadata.get((name, version))

    @cached_property
    def _metadata(self) -> Mapping[Key, ModelMetadata]:
        every: dict[Key, ModelMetadata] = {}
        versions: dict[str, set[str]] = {}
        for report in self.replicas:
            for (name, version), metadata in report.models.items():
                every.setdefault((name, version), metadata)
                versions.setdefault(name, set()).add(version)
        for (name, version), metadata in list(every.items()):
            every[name, version] = replace(metadata, versions=sorted(versions[name], key=int))
        for name, numbers in versions.items():
            every[name, ""] = every[name, max(numbers, key=int)]
        return every

    def counters(self) -> dict[Key, Counters]:
        """Sums: what is gone, too."""
        return summed((*(report.counters for report in self.replicas), self.past), add_counters)

    def stats(self) -> dict[Key, _control.Stats]:
        """Sums, but for what replicas share."""
        return summed((*(report.stats for report in self.replicas), self.past_stats), add_stats)


def _rank(state: ModelState, report: Report) -> int:
    if state.state == LOADING and (state.name, state.version) not in report.models:
        return 2
    return 1 if state.state == READY else 0


def summed(parts: Iterable[Mapping[Key, Any]], add: Any) -> dict[Key, Any]:
    """By key."""
    total: dict[Key, Any] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = value if key not in total else add(total[key], value)
    return total


def add_counters(first: Counters, second: Counters) -> Counters:
    """The sum, as new ones."""
    requests = dict(first.requests)
    for outcome, number in second.requests.items():
        requests[outcome] = requests.get(outcome, 0) + number
    return Counters(
        requests=requests,
        latency=_add(first.latency, second.latency),
        queue=_add(first.queue, second.queue),
        run=_add(first.run, second.run),
        batch=_add(first.batch, second.batch),
        split=first.split + second.split,
        waiting=first.waiting + second.waiting,
        running=first.running + second.running,
    )


def past_counters(counters: Counters) -> Counters:
    """Of a replica that is gone: nothing waits or runs there."""
    return replace(counters, waiting=0, running=0)


def past_stats(stats: _control.Stats) -> _control.Stats:
    """Likewise."""
    return replace(stats, entries=0, pending=0, deferred=0, stale=0)


def _add(first: Histogram, second: Histogram) -> Histogram:
    total = Histogram(first.bounds)
    total.counts = [a + b for a, b in zip(first.counts, second.counts, strict=True)]
    total.number = first.number + second.number
    total.total = first.total + second.total
    return total


def add_stats(first: _control.Stats, second: _control.Stats) -> _control.Stats:
    """The sum of what is counted; of what replicas share, the larger one."""
    values: dict[str, Any] = {}
    for entry in fields(_control.Stats):
        mine, other = getattr(first, entry.name), getattr(second, entry.name)
        if isinstance(mine, str):
            values[entry.name] = mine
        elif isinstance(mine, dict):
            reasons = {*mine, *other}
            values[entry.name] = {reason: mine.get(reason, 0) + other.get(reason, 0) for reason in reasons}
        else:
            values[entry.name] = max(mine, other) if entry.name in _COMMON else mine + other
    return _control.Stats(**values)
