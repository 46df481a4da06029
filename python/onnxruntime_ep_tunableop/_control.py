"""What can be asked of a session: its cache, its counters, its reasons."""

from __future__ import annotations

import json
import os
import uuid
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnxruntime as ort

from . import _core
from ._library import EP_NAME, get_library_path
from .errors import NotAssignedError, OptionError, TunableOpError

MODES = ("off", "cached", "online", "background", "record")

_tokens: weakref.WeakKeyDictionary[ort.InferenceSession, str] = weakref.WeakKeyDictionary()
_GONE = "the session is gone"  # as the native side says it


def token_of(session: ort.InferenceSession) -> str:
    """As `_token`."""
    return _token(session)


def graph_settings(session: ort.InferenceSession) -> dict[str, Any]:
    """ "enabled", "max_graphs", "graph_memory" as they hold, and the counters of `GraphStats`."""
    return dict(_ask(session, "stats")["graphs"])


def graph_view(session: ort.InferenceSession, number: int) -> dict[str, Any]:
    """ "captured", "bytes", "refused" of one graph."""
    return dict(_ask(session, "graph", id=number))


def release_graph(session: ort.InferenceSession, number: int, for_room: bool) -> None:
    """Its memory is free again; a number that has no graph is no error. `for_room`: others need it."""
    _ask(session, "release_graph", id=number, for_room=for_room)


def note_graphs(session: ort.InferenceSession, line: str) -> None:
    """For `explain`, and ONNX Runtime's log."""
    _ask(session, "note_graphs", line=line)


def _token(session: ort.InferenceSession) -> str:
    """The name under which the native side knows the session; given at the first question."""
    token = _tokens.get(session)
    if token is None:
        if EP_NAME not in session.get_providers():
            raise NotAssignedError(
                f"this session does not use {EP_NAME} (providers: {', '.join(session.get_providers())}); "
                "make it with onnxruntime_ep_tunableop.InferenceSession"
            )
        token = uuid.uuid4().hex
        session.set_ep_dynamic_options({"session.token": token})
        _tokens[session] = token
    return token


def _ask(session: ort.InferenceSession, method: str, **arguments: Any) -> Any:
    for _ in range(2):
        token = _token(session)
        request = json.dumps({"token": token, **arguments})
        try:
            return json.loads(_core.control(get_library_path(), method, request))
        except FileNotFoundError as error:
            if str(error) != _GONE:
                raise
            # session.set_providers made the session anew behind the same object: it needs a new name.
            if _tokens.get(session) == token:
                del _tokens[session]
        except (OSError, ValueError):
            raise
        except RuntimeError as error:
            raise TunableOpError(str(error)) from error
    raise TunableOpError(
        f"{get_library_path()} does not know this session: another copy of the library serves it; "
        "register only this one (onnxruntime_ep_tunableop.register does)"
    )


def _absolute(path: str | os.PathLike[str]) -> str:
    return str(Path(path).absolute())


def save_cache(session: ort.InferenceSession, path: str | os.PathLike[str]) -> None:
    """Merges what the session knows into the file `path` (atomically; created if missing).

    Raises:
        OSError: the file cannot be written; what it held is untouched.
    """
    _ask(session, "save_cache", path=_absolute(path))


def load_cache(session: ort.InferenceSession, path: str | os.PathLike[str]) -> list[str]:
    """Takes the entries of the file that are valid here; returns one line for each that is not.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return list(_ask(session, "load_cache", path=_absolute(path))["problems"])


def set_tuning(session: ort.InferenceSession, mode: str) -> None:
    """Changes the mode of a live session: off, cached, online, background or record.

    It holds from the next call on; what was learned is kept.

    Raises:
        OptionError: no such mode.
    """
    if mode not in MODES:
        raise OptionError(f"option 'tuning': expected one of {', '.join(MODES)}, found '{mode}'")
    _token(session)  # a session that is not ours gets the clear error
    session.set_ep_dynamic_options({"tuning": mode})


def stop_background(session: ort.InferenceSession) -> None:
    """Ends the session's background thread."""
    _ask(session, "stop_background")


def save_own_cache(session: ort.InferenceSession) -> None:
    """Saves to the file given as option `cache`, if there is something new."""
    _ask(session, "save_own_cache")


def get_tuning_results(session: ort.InferenceSession) -> dict[str, Any]:
    """What the session knows, as the document that `save_cache` writes (docs/tuning-results.md)."""
    return dict(_ask(session, "get_results"))


def set_tuning_results(session: ort.InferenceSession, results: dict[str, Any]) -> list[str]:
    """Takes the entries that are valid here; returns one line for each that is not."""
    return list(_ask(session, "set_results", results=json.dumps(results))["problems"])


@dataclass(frozen=True)
class GraphStats:
    """Graphs of one session (`enable_graph`)."""

    enabled: bool = False  #: asked for, and possible; otherwise a note of `explain` says why not
    max_graphs: int = 0
    graph_memory: int = 0  #: bytes, at most
    alive: int = 0
    bytes: int = 0  #: of the card, that belong to graphs
    captured: int = 0
    replayed: int = 0
    recaptured: int = 0  #: since a choice had changed
    discarded: int = 0  #: captures of which nothing came
    evicted: int = 0  #: for want of room
    refused: dict[str, int] = field(default_factory=dict)  #: numbers that run without a graph, by reason


@dataclass(frozen=True)
class Stats:
    """Counters of one session since it was made."""

    hits: int  #: GEMM calls that ran what the cache knew
    #: GEMM calls whose problem the cache did not know: measured, or a default kernel ran. Calls with
    #: tuning="off" and "record" are neither hits nor misses.
    misses: int
    tuned: int  #: problems measured
    tuning_seconds: float  #: wall clock spent measuring
    evicted: int  #: entries dropped because the cache was full
    entries: int  #: problems that the cache knows now
    denied: int  #: candidates that lost their place: wrong answers, errors
    tuning: str  #: the mode at present
    device: str  #: what it runs on: "cpu", "cuda:0" ...
    pending: int  #: problems that wait to be measured in the background
    deferred: int  #: problems whose uses do not repay a measurement yet
    stale: int  #: choices that serve and are to be measured again
    revalidated: int  #: measurements of problems that had a choice already
    forms: int  #: shapes of groups on a card whose form was measured (`Form`)
    session_seconds: float  #: since the session was made
    saved_seconds: float  #: what the choices saved against the default kernels, as measured
    #: `denied` by reason: "wrong answer", "returned an error", "did not return", "denied" (before) ...
    rejected: dict[str, int] = field(default_factory=dict)
    fallbacks: dict[str, int] = field(default_factory=dict)  #: runs on an unmeasured kernel, by reason
    graphs: GraphStats = field(default_factory=GraphStats)

    @property
    def hit_rate(self) -> float:
        """Share of calls that ran what the cache knew; 0 before the first call."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 0.0

    @property
    def tuning_share(self) -> float:
        """Share of the session's life that went into measuring."""
        return self.tuning_seconds / self.session_seconds if self.session_seconds > 0 else 0.0


def stats(session: ort.InferenceSession) -> Stats:
    """The session's counters."""
    answer = _ask(session, "stats")
    return Stats(**(answer | {"graphs": GraphStats(**answer["graphs"])}))


@dataclass(frozen=True)
class Node:
    """Why one MatMul or Gemm node was claimed or refused."""

    graph: str
    name: str
    op_type: str
    claimed: bool
    weight: bool
    reason: str


@dataclass(frozen=True)
class OtherNode:
    """Why one node that is no MatMul or Gemm runs on the card, or does not."""

    graph: str
    name: str
    op_type: str
    claimed: bool
    reason: str


@dataclass(frozen=True)
class Shape:
    """Which kernel runs one problem, and why."""

    problem: str
    m: int
    n: int
    k: int
    batch: int
    kernel: str
    default_kernel: str
    tuned: bool
    milliseconds: float
    default_milliseconds: float
    error: float
    candidates: int
    why: str  #: how the kernel was chosen, in words
    stock_milliseconds: float  #: of the stock provider's kernel, raced beside; 0: not measured
    stock_wins: bool  #: the stock provider's is faster beyond min_gain and chance
    cold: bool  #: measured with B out of the cache
    gflops: float  #: achieved; 0 with measure_mode=0
    gigabytes_per_second: float  #: of the operands, each moved once
    clock_mhz: float  #: when it was measured; 0: not known
    temperature_c: float  #: the same
    counters: dict[str, float | str | None]  #: per call, with measure_mode=2; "unavailable" says why not


@dataclass(frozen=True)
class Form:
    """In which of several ways nodes that run as one are run, for one shape, on a card."""

    group: str  #: the pattern: "MatMul+Add"
    shape: str
    form: str  #: that runs
    usual_form: str  #: that runs where nothing was measured
    measured: bool
    milliseconds: float  #: 0: not measured
    usual_milliseconds: float
    cold: bool  #: measured with nothing in the caches
    why: str  #: how it was chosen, in words


@dataclass(frozen=True)
class Explanation:
    """Everything that was decided for a session. `str()` gives a report for a person."""

    nodes: list[Node]  #: every MatMul and Gemm
    shapes: list[Shape]
    notes: list[str]
    operators: list[OtherNode] = field(default_factory=list)  #: every other node, in a session on a card
    forms: list[Form] = field(default_factory=list)  #: of groups that can be run in several, on a card

    def coverage(self) -> dict[str, tuple[int, int]]:
        """Of each operator how many nodes are claimed, and how many there are."""
        counts: dict[str, tuple[int, int]] = {}
        every: list[Node | OtherNode] = [*self.nodes, *self.operators]
        for node in every:
            claimed, total = counts.get(node.op_type, (0, 0))
            counts[node.op_type] = (claimed + node.claimed, total + 1)
        return dict(sorted(counts.items()))

    def __str__(self) -> str:
        """The report."""
        claimed = sum(node.claimed for node in self.nodes)
        lines = [f"{claimed} of {len(self.nodes)} MatMul and Gemm nodes run on {EP_NAME}"]
        lines += [f"  {node.op_type} '{node.name}': {node.reason}" for node in self.nodes]
        lines += self._operators()
        lines.append(f"{len(self.shapes)} problems met")
        for shape in self.shapes:
            line = f"  ({shape.problem}): {shape.kernel}"
            if shape.tuned and shape.milliseconds > 0:
                gain = shape.default_milliseconds / shape.milliseconds
                line += (
                    f", {shape.milliseconds:.4g} ms, default {shape.default_milliseconds:.4g} ms "
                    f"({gain:.2f}x, {shape.candidates} candidate{'' if shape.candidates == 1 else 's'})"
                )
                if shape.stock_milliseconds > 0:
                    line += f", stock {shape.stock_milliseconds:.4g} ms"
                if shape.gflops > 0:
                    line += f", {shape.gflops:.4g} GFLOP/s"
            elif shape.tuned:
                line += ", kept without a measurement"
            elif shape.kernel == shape.default_kernel:
                line += ", default kernel"
            lines.append(f"{line}: {shape.why}")
        lines += self._forms()
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _forms(self) -> list[str]:
        lines = [f"{len(self.forms)} shapes of groups that have several forms"] if self.forms else []
        for form in sorted(self.forms, key=lambda form: (form.group, form.shape)):
            line = f"  {form.group} ({form.shape}): {form.form}"
            if form.measured:
                gain = form.usual_milliseconds / form.milliseconds
                line += (
                    f", {form.milliseconds:.4g} ms, {form.usual_form} {form.usual_milliseconds:.4g} ms "
                    f"({gain:.2f}x)"
                )
            lines.append(f"{line}: {form.why}")
        return lines

    def _operators(self) -> list[str]:
        """Those with the same operator and reason on one line."""
        if not self.operators:
            return []
        claimed = sum(node.claimed for node in self.operators)
        lines = [f"{claimed} of {len(self.operators)} other nodes run on {EP_NAME}"]
        same: dict[tuple[str, str], list[str]] = {}
        for node in self.operators:
            same.setdefault((node.op_type, node.reason), []).append(node.name)
        for (op, reason), names in sorted(same.items()):
            who = f"'{names[0]}'" if len(names) == 1 else f"({len(names)})"
            lines.append(f"  {op} {who}: {reason}")
        return lines


def operators() -> list[dict[str, Any]]:
    """The table of operators that have kernels on cards beside MatMul and Gemm."""
    return list(json.loads(_core.control(get_library_path(), "operators", "{}"))["operators"])


def warm_up(device: str) -> None:
    """Begins what a card needs some time for, in the background; of the CPU: nothing."""
    backend, _, ordinal = device.partition(":")
    if ordinal:
        _core.control(
            get_library_path(), "warm_up", json.dumps({"backend": backend, "ordinal": int(ordinal)})
        )


def fusions() -> list[str]:
    """Names of the patterns of nodes that run as one on cards, in the order in which they are looked for."""
    return list(json.loads(_core.control(get_library_path(), "operators", "{}"))["fusions"])


def explain(session: ort.InferenceSession) -> Explanation:
    """Per node: claimed or refused and why; per problem: which kernel and why."""
    answer = _ask(session, "explain")
    return Explanation(
        nodes=[Node(**node) for node in answer["nodes"]],
        shapes=[Shape(**shape) for shape in answer["shapes"]],
        notes=list(answer["notes"]),
        operators=[OtherNode(**node) for node in answer["operators"]],
        forms=[Form(**form) for form in answer["forms"]],
    )
