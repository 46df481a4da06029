"""`tunableop bench MODEL`: our provider beside the stock ones, in turns, in one run."""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _devices
from ..errors import OptionError
from . import ceiling as ceilings
from . import machine, profile, profiled, work
from .answers import TOLERANCES, compare, vague
from .figures import latency
from .fresh import probe
from .inputs import Subject
from .judgement import judge
from .others import OtherWork, note
from .results import (
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
from .sides import Against, Facts, Side, SideSpec, SideStats, open_side
from .turns import LEAST_ROUNDS, MOST_ROUNDS, Plan, Turns, blocks_of, take_turns
from .waiting import until_measured

Progress = Callable[[str, int, int], None]

TUNED, AGGRESSIVE = "tuned", "aggressive"
#: What "aggressive" adds: every kernel, two seconds for each problem and no end to all of them.
AGGRESSIVE_OPTIONS = {"candidates": "all", "max_tuning_ms": 2000, "max_session_ms": 0, "min_gain": 0.01}

_QUICK_SECONDS = 2.0  # a fresh process that takes less is started three times, others once


@dataclass(frozen=True)
class Request:
    """What to measure. Times in seconds."""

    subject: Subject
    against: Sequence[Against]  #: the first is the baseline
    options: Mapping[str, str]  #: of our sessions: tuning, device, precision ...
    aggressive: bool = False
    threads: int | None = None  #: intra-op, of every session; None: as many as there are cores
    concurrency: int = 1
    warmup: int = 3  #: untimed calls before each block of timed ones
    duration: float = 10.0  #: of timed calls, for each side
    iterations: int | None = None  #: timed calls for each side, in place of a duration
    seed: int = 0
    rtol: float | None = None  #: None: by the element type of each output
    atol: float | None = None
    allow_fallback: bool = False
    fresh: bool = True  #: measure first requests in fresh processes
    profile: bool = True  #: count nodes and times for each provider


@dataclass(frozen=True)
class _Contender:
    spec: SideSpec
    python: Path | None


@dataclass
class _Seen:
    """What the timed part leaves behind when its sessions are closed."""

    turns: Turns
    plan: Plan
    answers: dict[str, Any]
    facts: dict[str, Facts]
    before: dict[str, SideStats]
    after: dict[str, SideStats]


def run(request: Request, folder: Path, progress: Progress | None = None) -> Report:
    """Measures. `folder`: for files that live as long as this call, tuning results among them.

    Raises:
        OptionError: a provider, Python or option that is not there.
        TunableOpError: a session could not be made or run.
    """
    try:
        return _Bench(request, folder, progress or (lambda what, done, total: None)).run()
    except BaseException as error:
        # They hold sessions, which save their results when they go: while the folder is there.
        traceback.clear_frames(error.__traceback__)
        raise


class _Bench:
    def __init__(self, request: Request, folder: Path, progress: Progress) -> None:
        if not request.against:
            raise OptionError("against: expected at least one provider to compare with")
        if request.iterations is not None and request.iterations < request.concurrency:
            raise OptionError(
                f"iterations: expected one for each of {request.concurrency} callers, "
                f"found {request.iterations}"
            )
        self.request = request
        self.folder = folder
        self.progress = progress
        self.threads = request.threads or machine.cores()
        self.notes: list[str] = []
        stock = [_Contender(self._stock(against), against.python) for against in request.against]
        ours = [_Contender(self._ours(TUNED, dict(request.options)), None)]
        if request.aggressive:
            options = {**request.options, **AGGRESSIVE_OPTIONS}
            options.pop("cache", None)  # its results must not mix with those of the ordinary side
            ours.append(_Contender(self._ours(AGGRESSIVE, options), None))
        self.contenders = {one.spec.name: one for one in (*stock, *ours)}
        if len(self.contenders) != len(stock) + len(ours):
            raise OptionError("against: a provider stands there twice")
        self.baseline = stock[0].spec.name
        self.feeds = request.subject.feeds
        self.runs = 1

    def _stock(self, against: Against) -> SideSpec:
        where = "" if against.python is None else f" of {against.python}"
        return SideSpec(
            name=f"{against.provider}{where}",
            kind="stock",
            model=self.request.subject.path,
            providers=((against.provider, {}),),
            threads=self.threads,
            concurrency=self.request.concurrency,
        )

    def _ours(self, name: str, options: dict[str, Any]) -> SideSpec:
        options.setdefault("cache", str(self.folder / f"{name}.json"))
        return SideSpec(
            name=name,
            kind="tunableop",
            model=self.request.subject.path,
            options=options,
            threads=self.threads,
            concurrency=self.request.concurrency,
        )

    def run(self) -> Report:
        """All of it. Sessions are closed before fresh processes and profiles: they need room themselves."""
        seen = self._timed()
        self.runs = profiled.runs(max(seen.turns.latencies(self.baseline)))
        events = self._profiles()
        # The model's products, as the first side that was profiled ran them: the baseline, if it is here.
        done = _once(next(iter(events.values())), self.runs) if events else None
        told = seen.after[TUNED]["explain"]
        ours = work.type_of(told["shapes"], str(self.request.options.get("precision", "exact")))
        best = self._ceiling(done, ours)
        first = self._fresh()
        # The baseline may cast what we do not: a CPU runs fp16 as fp32.
        kinds = [ours or "fp32", *([done.element_type] if done is not None and done.products else [])]
        kind = max(kinds, key=lambda name: TOLERANCES[name])
        sides = [self._side(name, seen, events.get(name, []), first, done, kind) for name in self.contenders]
        self.notes += vague(seen.answers[self.baseline])
        policy = self.request.options.get("claim", "auto")
        nodes = [_node(node, policy) for node in told["nodes"]]
        self.notes += [f"{TUNED}: {note}" for note in told["notes"]]
        code, complaints = judge(sides, nodes, allow_fallback=self.request.allow_fallback)
        return Report(
            schema=SCHEMA,
            machine=machine.facts(),
            model=self.request.subject.name,
            shapes=self.request.subject.shapes,
            plan=self._plan_document(seen.plan),
            baseline=self.baseline,
            sides=sides,
            ratios=[
                RatioReport(name, self.baseline, seen.turns.ratio(self.baseline, name, self.request.seed))
                for name in self.contenders
                if name != self.baseline
            ],
            work=done,
            ceiling=best,
            nodes=nodes,
            problems=[_shape(shape) for shape in told["shapes"]],
            notes=self.notes,
            code=code,
            complaints=complaints,
            order=[list(names) for names in seen.turns.order],
            samples={
                name: [list(timing.latencies) for timing in seen.turns.timings(name)]
                for name in self.contenders
            },
        )

    # --- its parts

    def _timed(self) -> _Seen:
        with contextlib.ExitStack() as stack:
            sides: dict[str, Side] = {}
            for at, (name, one) in enumerate(self.contenders.items()):
                self.progress(f"opening {name}", at, len(self.contenders))
                sides[name] = stack.enter_context(open_side(one.spec, self.feeds, one.python))
            answers: dict[str, Any] = {}
            for at, (name, side) in enumerate(sides.items()):
                self.progress(f"first run of {name}", at, len(sides))
                answers[name] = side.outputs()
                if self.contenders[name].spec.kind == "tunableop":
                    until_measured(side, self.progress)
                    # Those of the kernels that are timed, not of the first run's.
                    answers[name] = side.outputs()
            plan = self._plan(sides)
            before = {name: side.stats() for name, side in sides.items()}
            pids = [side.facts()["pid"] for side in sides.values()]
            watch = OtherWork(pids)
            turns = take_turns(sides, plan, self.progress)
            self.notes += note(watch.share())
            return _Seen(
                turns=turns,
                plan=plan,
                answers=answers,
                facts={name: side.facts() for name, side in sides.items()},
                before=before,
                after={name: side.stats() for name, side in sides.items()},
            )

    def _plan(self, sides: Mapping[str, Side]) -> Plan:
        """Rounds of equal blocks; of slow models fewer, but never fewer than LEAST_ROUNDS."""
        request = self.request
        if request.iterations is not None:
            rounds, calls = blocks_of(request.iterations, request.concurrency)
            return Plan(rounds, None, calls, request.warmup, request.seed)
        slowest = max(
            max(side.block(seconds=None, calls=1, warmup_calls=0).latencies) for side in sides.values()
        )
        rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, int(request.duration / max(slowest, 1e-9))))
        block = request.duration / rounds
        # Caches and clocks have settled long before a call ends that is a good part of its block.
        warmup = request.warmup if slowest * request.warmup <= block / 4 else 0
        return Plan(rounds, block, None, warmup, request.seed)

    def _plan_document(self, plan: Plan) -> dict[str, Any]:
        skipped = ("subject", "against", "options")
        asked = {key: value for key, value in vars(self.request).items() if key not in skipped}
        return {**asked, **dataclasses.asdict(plan), "threads": self.threads}

    def _profiles(self) -> dict[str, list[profile.NodeEvent]]:
        """Node events of `runs` runs of each side of this Python; what fails is a note."""
        events: dict[str, list[profile.NodeEvent]] = {}
        here = [one.spec for one in self.contenders.values() if one.python is None]
        for at, spec in enumerate(here if self.request.profile else []):
            self.progress(f"profiling {spec.name}", at, len(here))
            try:
                events[spec.name] = profile.profile(
                    lambda options, spec=spec: profiled.session(spec, options),  # type: ignore[misc]
                    self.feeds,
                    self.runs,
                )
            except Exception as error:
                self.notes.append(f"{spec.name} was not profiled: {error}")
        return events

    def _ceiling(self, done: WorkReport | None, ours: str) -> CeilingReport | None:
        """In the type that our products have: the baseline may cast them to another one."""
        if done is None or not done.products:
            return None
        self.progress("measuring what this machine can do at most", 0, 1)
        device = str(self.request.options.get("device", "auto"))
        # Each caller computes itself, beside the threads of the one pool that all share.
        threads = self.threads + self.request.concurrency - 1
        if self.request.concurrency > 1:
            threads = max(self.threads, min(threads, machine.cores()))
        found = ceilings.measure(device, threads, ours or done.element_type)
        return CeilingReport(found.gflops, found.gigabytes_per_second, found.how)

    def _fresh(self) -> dict[str, tuple[FirstRequest, FirstRequest | None]]:
        """Of each side: with nothing known, and of ours also with the results that the timed part saved."""
        found: dict[str, tuple[FirstRequest, FirstRequest | None]] = {}
        for at, (name, one) in enumerate(self.contenders.items() if self.request.fresh else ()):
            self.progress(f"fresh processes of {name}", at, len(self.contenders))
            again = None
            spec = one.spec
            if spec.kind == "tunableop":
                again = self._first(one)
                nothing = self.folder / f"{name}-from-nothing.json"
                spec = spec.with_options(cache=str(nothing))
            found[name] = (self._first(_Contender(spec, one.python)), again)
        return found

    def _first(self, one: _Contender) -> FirstRequest:
        repeats = 1
        found = probe(one.spec, self.feeds, one.python)
        took = found.creation_seconds + found.first_request_seconds + found.second_request_seconds
        if took < _QUICK_SECONDS:
            repeats = 3
            found = probe(one.spec, self.feeds, one.python, repeats)
        return FirstRequest(**dataclasses.asdict(found), repeats=repeats)

    def _side(
        self,
        name: str,
        seen: _Seen,
        events: list[profile.NodeEvent],
        first: Mapping[str, tuple[FirstRequest, FirstRequest | None]],
        done: WorkReport | None,
        kind: str,
    ) -> SideReport:
        spec, facts, turns = self.contenders[name].spec, seen.facts[name], seen.turns
        times = latency(turns.latencies(name))
        before, after = seen.before[name], seen.after[name]
        mine = work.of_events(events)
        if mine.products and done is not None:
            # The same products, perhaps in another type: half the bytes of what the baseline casts to fp32.
            done = dataclasses.replace(done, bytes=mine.bytes / self.runs)
        inside = work.median_seconds(events, self.runs) * self.runs
        clocks = self._times_products(spec)  # else the profile has the times of queueing
        flops, moved = (done.flops, done.bytes) if done is not None else (0.0, 0.0)
        # Calls at the same time share the machine: what one takes says nothing of what all achieve.
        together = self.request.concurrency > 1
        calls_per_second = turns.throughput(name).mean if together else 1.0 / times.median
        alone, with_results = first.get(name, (None, None))
        counters = after["counters"]
        return SideReport(
            name=name,
            kind=spec.kind,
            providers=list(facts["providers"]),
            options={key: str(value) for key, value in spec.options.items()},
            versions={"onnxruntime": facts["onnxruntime"], "python": facts["python"]},
            latency=times,
            throughput=turns.throughput(name),
            agreement=compare(
                seen.answers[name],
                seen.answers[self.baseline],
                element_type=kind,
                rtol=self.request.rtol,
                atol=self.request.atol,
            ),
            creation_seconds=facts["creation_seconds"],
            first=alone,
            first_with_results=with_results,
            gflops=flops * calls_per_second * 1e-9,
            gigabytes_per_second=moved * calls_per_second * 1e-9,
            product_gflops=mine.flops / inside * 1e-9 if clocks and inside > 0.0 else 0.0,
            product_gigabytes_per_second=mine.bytes / inside * 1e-9 if clocks and inside > 0.0 else 0.0,
            provider_times=[
                ProviderTime(share.provider, share.nodes, share.seconds_per_run)
                for share in profile.shares(events, self.runs)
            ],
            tuned=int(counters.get("tuned", 0)),
            tuning_seconds=float(counters.get("tuning_seconds", 0.0)),
            hits=_more(before, after, "hits"),
            denied=int(counters.get("denied", 0)),
            runtime_fallbacks=_fallbacks(before, after),
        )

    def _times_products(self, spec: SideSpec) -> bool:
        """Whether a node's time in the profile is that of its work: on the CPU."""
        if spec.kind == "stock":
            return spec.providers[0][0] == _devices.CPU_PROVIDER
        return not _devices.choose(str(spec.options.get("device", "auto"))).is_card


def _once(events: list[profile.NodeEvent], runs: int) -> WorkReport:
    """The work of one of `runs` runs."""
    found = work.of_events(events)
    return WorkReport(
        found.products // runs, found.flops / runs, found.bytes / runs, work.element_type(events)
    )


def _node(told: Mapping[str, Any], policy: str) -> NodeReport:
    """`policy`: option claim. What it leaves to others, or a measurement does, is no fallback."""
    reason = str(told["reason"]).removeprefix("refused: ")
    asked = not told["claimed"] and reason.startswith(
        (f"claim={policy}", "the stock provider is faster here")
    )
    return NodeReport(str(told["name"]), str(told["op_type"]), bool(told["claimed"]), asked, reason)


def _shape(told: Mapping[str, Any]) -> ShapeReport:
    return ShapeReport(**{field.name: told[field.name] for field in dataclasses.fields(ShapeReport)})


def _more(before: SideStats, after: SideStats, counter: str) -> int:
    return int(after["counters"].get(counter, 0)) - int(before["counters"].get(counter, 0))


def _fallbacks(before: SideStats, after: SideStats) -> dict[str, int]:
    """Timed runs on an unmeasured kernel, by reason."""
    then: Mapping[str, int] = before["counters"].get("fallbacks", {})
    now: Mapping[str, int] = after["counters"].get("fallbacks", {})
    return {
        reason: count - then.get(reason, 0) for reason, count in now.items() if count > then.get(reason, 0)
    }
