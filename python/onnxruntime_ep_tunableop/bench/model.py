"""`tunableop bench MODEL`: our provider beside the stock ones, in turns, in one run."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import _devices
from ..errors import OptionError, TunableOpError
from . import ceiling as ceilings
from . import figures, fresh, machine, profile, work
from .figures import Agreement
from .inputs import Subject
from .results import (
    ANSWERS_DIFFER,
    FELL_BACK,
    NOTHING_RAN,
    SCHEMA,
    CeilingReport,
    FirstRequest,
    NodeReport,
    ProviderTime,
    RatioReport,
    Report,
    ShapeReport,
    SideReport,
    WorkReport,
)
from .sides import Against, Side, SideSpec, open_side
from .turns import Plan, Turns, take_turns

Progress = Callable[[str, int, int], None]

TUNED, AGGRESSIVE = "tuned", "aggressive"
#: What "aggressive" adds: every kernel, two seconds for each problem and no end to all of them.
AGGRESSIVE_OPTIONS = {"candidates": "all", "max_tuning_ms": "2000", "max_session_ms": "0", "min_gain": "0.01"}

_LEAST_ROUNDS, _ROUNDS = 5, 12
_BACKGROUND_PATIENCE = 120.0  # seconds without a problem measured in the background
_FRESH_LIMIT = 2.0  # seconds of a fresh process above which one is enough
#: Default tolerance by element type of the output: relative to the tensor's largest magnitude, as a share.
_TOLERANCE = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 1e-3, "float64": 1e-3}
_REFUSED_AS_ASKED = ("claim=", "computed")


@dataclass(frozen=True)
class Request:
    """What to measure. Times in seconds."""

    subject: Subject
    against: Sequence[Against]  #: the first is the baseline
    options: Mapping[str, str]  #: of our sessions: tuning, device, precision ...
    aggressive: bool = False
    threads: int | None = None  #: intra-op, of every session
    concurrency: int = 1
    warmup: int = 3  #: untimed calls before each block of timed ones
    duration: float = 10.0  #: of timed calls, for each side
    iterations: int | None = None  #: timed calls for each side, in place of a duration
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    allow_fallback: bool = False
    fresh: bool = True  #: measure first requests in fresh processes
    profile: bool = True  #: count nodes and times for each provider
    notes: Sequence[str] = field(default_factory=tuple)


def run(request: Request, folder: Path, progress: Progress | None = None) -> Report:
    """Measures. `folder`: for files that live as long as this call, tuning results among them.

    Raises:
        OptionError: a provider, Python or option that is not there.
        TunableOpError: a session could not be made or run.
    """
    return _Bench(request, folder, progress or _silent).run()


def _silent(what: str, done: int, total: int) -> None:
    """No progress."""


class _Bench:
    def __init__(self, request: Request, folder: Path, progress: Progress) -> None:
        self.request = request
        self.folder = folder
        self.progress = progress
        self.stock = [self._stock_spec(against) for against in request.against]
        if not self.stock:
            raise OptionError("against: expected at least one provider to compare with")
        self.pythons = [against.python for against in request.against]
        self.ours = [self._our_spec(TUNED, dict(request.options))]
        if request.aggressive:
            options = {**request.options, **AGGRESSIVE_OPTIONS}
            options.pop("cache", None)  # its results must not mix with those of the ordinary side
            self.ours.append(self._our_spec(AGGRESSIVE, options))
        self.baseline = self.stock[0].name

    # --- who takes part

    def _stock_spec(self, against: Against) -> SideSpec:
        providers = [against.provider]
        if against.provider != _devices.CPU_PROVIDER:
            providers.append(_devices.CPU_PROVIDER)
        name = against.provider if against.python is None else f"{against.provider} of {against.python}"
        return SideSpec(
            name=name,
            kind="stock",
            model=self.request.subject.path,
            providers=tuple((provider, {}) for provider in providers),
            options={},
            threads=self.request.threads,
            concurrency=self.request.concurrency,
        )

    def _our_spec(self, name: str, options: dict[str, str]) -> SideSpec:
        options.setdefault("cache", str(self.folder / f"{name}.json"))
        return SideSpec(
            name=name,
            kind="tunableop",
            model=self.request.subject.path,
            providers=(),
            options=options,
            threads=self.request.threads,
            concurrency=self.request.concurrency,
        )

    # --- the course of it

    def run(self) -> Report:
        request, feeds = self.request, self.request.subject.feeds
        notes = list(request.notes)
        with contextlib.ExitStack() as stack:
            sides: dict[str, Side] = {}
            specs = [*zip(self.stock, self.pythons, strict=True), *((spec, None) for spec in self.ours)]
            for at, (spec, python) in enumerate(specs):
                self.progress(f"opening {spec.name}", at, len(specs))
                sides[spec.name] = stack.enter_context(open_side(spec, feeds, python))
            answers = {}
            for at, (name, side) in enumerate(sides.items()):
                self.progress(f"first run of {name}", at, len(sides))
                answers[name] = side.outputs()
            for spec in self.ours:
                _finish_tuning(sides[spec.name], spec, self.progress)
                # The kernels that are timed are the ones that answer, not those of the first run.
                answers[spec.name] = sides[spec.name].outputs()
            before = {spec.name: sides[spec.name].stats() for spec in self.ours}
            turns = take_turns(sides, self._plan(sides), self.progress)
            after = {spec.name: sides[spec.name].stats() for spec in self.ours}
            facts = {name: side.facts() for name, side in sides.items()}
        events = self._profiles(notes)
        done = work.of_events(events[self.baseline]) if self.baseline in events else None
        best = self._ceiling(done)
        first = self._fresh(turns)
        reports = []
        for name in sides:
            reports.append(
                self._side(name, turns, answers, facts[name], before, after, events, first, done)
            )
        ours = after[TUNED]
        nodes = [_node(node, self.request.options) for node in ours["explain"]["nodes"]]
        ratios = [
            RatioReport(name, self.baseline, turns.ratio(self.baseline, name))
            for name in sides
            if name != self.baseline
        ]
        code, complaints = judge(reports, nodes, facts[TUNED].get("notes", []), request)
        return Report(
            schema=SCHEMA,
            machine=machine.facts(),
            model=request.subject.name,
            shapes=request.subject.shapes,
            plan=self._words(turns),
            baseline=self.baseline,
            sides=reports,
            ratios=ratios,
            work=WorkReport(done.products, done.flops, done.bytes) if done else None,
            ceiling=best,
            nodes=nodes,
            problems=[_shape(shape) for shape in ours["explain"]["shapes"]],
            notes=notes,
            code=code,
            complaints=complaints,
            order=[list(names) for names in turns.order],
            samples={
                name: [list(block.timing.latencies) for block in turns.blocks if block.side == name]
                for name in sides
            },
        )

    def _plan(self, sides: Mapping[str, Side]) -> Plan:
        """Rounds of equal blocks; of slow models fewer, but never fewer than _LEAST_ROUNDS."""
        request = self.request
        if request.iterations is not None:
            rounds = min(_ROUNDS, request.iterations)
            calls = math.ceil(request.iterations / rounds)
            return Plan(rounds, None, calls, request.warmup, request.seed)
        call = max(
            max(side.block(seconds=None, calls=1, warmup_calls=0).latencies) for side in sides.values()
        )
        rounds = max(_LEAST_ROUNDS, min(_ROUNDS, int(request.duration / max(call, 1e-9))))
        warmup = request.warmup if call * request.warmup < request.duration / rounds else min(1, request.warmup)
        return Plan(rounds, request.duration / rounds, None, warmup, request.seed)

    def _profiles(self, notes: list[str]) -> dict[str, list[profile.NodeEvent]]:
        """Node events of the sides that run in this Python; what fails is a note, no end."""
        events: dict[str, list[profile.NodeEvent]] = {}
        here = [spec for spec, python in zip(self.stock, self.pythons, strict=True) if python is None]
        specs = [*here, *self.ours] if self.request.profile else []
        for at, spec in enumerate(specs):
            self.progress(f"profiling {spec.name}", at, len(specs))
            try:
                events[spec.name] = profile.of_side(spec, self.request.subject.feeds)
            except Exception as error:
                notes.append(f"{spec.name} was not profiled: {error}")
        return events

    def _ceiling(self, done: work.Work | None) -> CeilingReport | None:
        if done is None or done.products == 0:
            return None
        self.progress("measuring what this machine can do at most", 0, 1)
        found = ceilings.measure(
            self.request.options.get("device", "auto"), self.request.threads, done.main_type
        )
        return CeilingReport(found.gflops, found.gigabytes_per_second, found.how)

    def _fresh(self, turns: Turns) -> dict[str, tuple[FirstRequest, FirstRequest | None]]:
        if not self.request.fresh:
            return {}
        feeds = self.request.subject.feeds
        found: dict[str, tuple[FirstRequest, FirstRequest | None]] = {}
        specs = [*zip(self.stock, self.pythons, strict=True), *((spec, None) for spec in self.ours)]
        for at, (spec, python) in enumerate(specs):
            self.progress(f"fresh processes of {spec.name}", at, len(specs))
            again = None
            if spec.kind == "tunableop":
                again = _first(spec, feeds, python)
                spec = spec.with_options(cache=str(self.folder / "nothing" / "known.json"))
            found[spec.name] = (_first(spec, feeds, python), again)
        return found
