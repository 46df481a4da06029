"""Which node took how long where: ONNX Runtime's own profile, read.

With `enable_profiling` a session writes a JSON list of events. Those of a node are called
"NAME_kernel_time", are the same for a provider that is a plugin as for a built-in one (1.24 to 1.32), and
carry operator, provider, and the types and shapes of the tensors that the kernel found. Three things to
know of them:

- A weight that a kernel packed for itself is no longer there: the inputs of a MatMul are then A alone.
- Times are whole microseconds, rounded down, and profiling itself costs about a microsecond a node.
- On a card they are the host's time to queue the kernel, not the card's time to run it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

_SUFFIX = "_kernel_time"
Dimensions = tuple[int, ...]


@dataclass(frozen=True)
class NodeEvent:
    """One run of one node.

    `seconds` without those of the nodes in a subgraph of its own (If, Loop, Scan), which have events
    themselves. Types as ONNX Runtime calls them ("float", "float16", "int64"). Inputs are those that the
    kernel found: an absent optional one, and a weight that was packed, are left out, and what follows moves
    up.
    """

    name: str
    op_type: str
    provider: str
    seconds: float
    input_types: tuple[str, ...]
    input_shapes: tuple[Dimensions, ...]
    output_types: tuple[str, ...]
    output_shapes: tuple[Dimensions, ...]


@dataclass(frozen=True)
class ProviderShare:
    """What one provider did: how many nodes of the model it ran, and for how long in one run of the model."""

    provider: str
    nodes: int
    seconds_per_run: float


def read(path: str | os.PathLike[str], skip_runs: int = 0) -> list[NodeEvent]:
    """The node events of a profile in the order in which they began, without those of the first `skip_runs`
    runs.

    Raises ValueError when the file is no profile, or holds no more runs than that.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        raw = [event for event in document if event.get("ph") == "X"]
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: expected a profile of ONNX Runtime: {error}") from error
    runs = sorted(event["ts"] + event["dur"] for event in raw if event["name"] == "model_run")
    if len(runs) <= skip_runs:
        raise ValueError(f"{path}: expected a profile of more than {skip_runs} runs, found {len(runs)}")
    begin = runs[skip_runs - 1] if skip_runs > 0 else 0
    nodes = [
        event
        for event in raw
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX) and event["ts"] >= begin
    ]
    # Parents before their children where both began in the same microsecond.
    nodes.sort(key=lambda event: (event["ts"], -event["dur"]))
    return [_event(event, own) for event, own in zip(nodes, _own_microseconds(nodes), strict=True)]


def _own_microseconds(nodes: Sequence[Mapping[str, Any]]) -> list[int]:
    """Durations less those of the events within, thread by thread; `nodes` in the order of their begin."""
    own = [int(event["dur"]) for event in nodes]
    open_events: dict[int, list[int]] = {}
    for at, event in enumerate(nodes):
        stack = open_events.setdefault(event.get("tid", 0), [])
        while stack and nodes[stack[-1]]["ts"] + nodes[stack[-1]]["dur"] <= event["ts"]:
            stack.pop()
        if stack:
            own[stack[-1]] -= int(event["dur"])
        stack.append(at)
    return [max(0, value) for value in own]


def _event(event: Mapping[str, Any], microseconds: int) -> NodeEvent:
    details = event["args"]
    input_types, input_shapes = _tensors(details.get("input_type_shape", ()))
    output_types, output_shapes = _tensors(details.get("output_type_shape", ()))
    return NodeEvent(
        event["name"].removesuffix(_SUFFIX),
        details.get("op_name", ""),
        details.get("provider", ""),
        microseconds * 1e-6,
        input_types,
        input_shapes,
        output_types,
        output_shapes,
    )


def _tensors(
    entries: Sequence[Mapping[str, Sequence[int]]],
) -> tuple[tuple[str, ...], tuple[Dimensions, ...]]:
    """[{"float": [4, 8]}, ...] as types and shapes."""
    pairs = [(kind, tuple(int(size) for size in shape)) for entry in entries for kind, shape in entry.items()]
    return tuple(kind for kind, _ in pairs), tuple(shape for _, shape in pairs)


def shares(events: Sequence[NodeEvent], runs: int) -> list[ProviderShare]:
    """The providers of `runs` runs, the one that took longest first."""
    nodes: dict[str, set[tuple[str, str]]] = {}
    seconds: dict[str, float] = {}
    for event in events:
        nodes.setdefault(event.provider, set()).add((event.name, event.op_type))
        seconds[event.provider] = seconds.get(event.provider, 0.0) + event.seconds
    found = [ProviderShare(name, len(nodes[name]), seconds[name] / runs) for name in nodes]
    return sorted(found, key=lambda share: (-share.seconds_per_run, share.provider))


def switch_on(options: ort.SessionOptions, folder: str | os.PathLike[str]) -> None:
    """Lets a session of these options write its profile into `folder`."""
    options.enable_profiling = True
    options.profile_file_prefix = str(Path(folder) / "profile")


def profile(
    make_session: Callable[[ort.SessionOptions], ort.InferenceSession],
    feeds: Mapping[str, npt.NDArray[Any]],
    runs: int,
    *,
    skip_runs: int = 1,
) -> list[NodeEvent]:
    """The node events of `runs` runs of a new session.

    `make_session` gets options that profile, to add to and make a session of. The first `skip_runs` runs,
    in which memory is allocated and problems are measured, are left out. No file stays behind.
    """
    with tempfile.TemporaryDirectory(prefix="tunableop-profile-") as folder:
        options = ort.SessionOptions()
        switch_on(options, folder)
        session = make_session(options)
        given = {name: np.asarray(values) for name, values in feeds.items()}
        for _ in range(skip_runs + runs):
            session.run(None, given)
        path = session.end_profiling()
        if not path or not Path(path).is_file():
            raise ValueError("the session wrote no profile: was it made with the options it was given?")
        return read(path, skip_runs)
