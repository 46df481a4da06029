from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import helper
from onnxruntime_ep_tunableop.bench import profile
from onnxruntime_ep_tunableop.bench.profile import NodeEvent, ProviderShare
from support.graphs import branch, graph, if_model, loop_model, model, value
from support.sessions import EP, QUICK, random

CPU = "CPUExecutionProvider"
W, V = random((8, 5), 1), random((5, 3), 2)
MODEL = model(
    graph(
        [
            helper.make_node("MatMul", ["X", "W"], ["P"], name="first"),
            helper.make_node("Softmax", ["P"], ["S"], name="soft"),
            helper.make_node("MatMul", ["S", "V"], ["Y"], name="second"),
        ],
        [value("X", ["m", 8])],
        [value("Y")],
        {"W": W, "V": V},
    )
).SerializeToString()


def stock(options: ort.SessionOptions) -> ort.InferenceSession:
    return ort.InferenceSession(MODEL, options, providers=[CPU])


def ours(options: ort.SessionOptions) -> ort.InferenceSession:
    return tunableop.InferenceSession(MODEL, options, **QUICK)


def test_nodes_of_the_stock_provider():
    events = profile.profile(stock, {"X": random((4, 8))}, runs=3)
    assert [event.name for event in events] == ["first", "soft", "second"] * 3
    assert [event.op_type for event in events] == ["MatMul", "Softmax", "MatMul"] * 3
    assert {event.provider for event in events} == {CPU}
    assert all(event.seconds >= 0.0 for event in events)
    first, soft, _ = events[:3]
    assert first.input_shapes[0] == (4, 8)
    assert (first.output_types, first.output_shapes) == (("float",), ((4, 5),))
    assert (soft.input_types, soft.input_shapes) == (("float",), ((4, 5),))


def test_nodes_of_our_provider_beside_the_stock_one():
    events = profile.profile(ours, {"X": random((4, 8))}, runs=2)
    assert [(event.name, event.provider) for event in events] == [
        ("first", EP),
        ("soft", CPU),
        ("second", EP),
    ] * 2
    # What a plugin provider's events hold: a weight that was packed is gone from the inputs.
    assert events[0].input_shapes == ((4, 8),)
    assert events[0].output_shapes == ((4, 5),)
    mine, rest = sorted(profile.shares(events, 2), key=lambda share: share.provider != EP)
    assert (mine.provider, mine.nodes) == (EP, 2)
    assert (rest.provider, rest.nodes) == (CPU, 1)
    total = sum(event.seconds for event in events)
    assert mine.seconds_per_run + rest.seconds_per_run == pytest.approx(total / 2)


def test_no_file_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert profile.profile(stock, {"X": random((4, 8))}, runs=1)
    assert list(tmp_path.iterdir()) == []


def test_the_first_run_is_left_out_also_where_it_measures():
    """The run that elects takes its milliseconds, and must not be a share of anything."""

    def measuring(options: ort.SessionOptions) -> ort.InferenceSession:
        return tunableop.InferenceSession(MODEL, options, max_tuning_ms=40.0, warmup_iter=1)

    with_it = profile.profile(measuring, {"X": random((4, 8))}, runs=1, skip_runs=0)
    without = profile.profile(measuring, {"X": random((4, 8))}, runs=8)
    assert len(with_it) == 3
    assert len(without) == 8 * 3

    def quickest(events: list[NodeEvent]) -> float:
        return min(event.seconds for event in events if event.provider == EP)

    assert quickest(without) < quickest(with_it)


def test_a_session_that_does_not_profile_is_an_error():
    def deaf(options: ort.SessionOptions) -> ort.InferenceSession:
        return ort.InferenceSession(MODEL, providers=[CPU])

    with pytest.raises(ValueError, match="the session wrote no profile"):
        profile.profile(deaf, {"X": random((4, 8))}, runs=1)


def test_nodes_of_a_subgraph_are_counted_once():
    """A Loop's own event holds the time of all that ran in it."""
    body = loop_model(random((6, 6), 3)).SerializeToString()

    def make(options: ort.SessionOptions) -> ort.InferenceSession:
        return ort.InferenceSession(body, options, providers=[CPU])

    feeds: dict[str, Any] = {"count": np.array(5, np.int64), "X": random((2, 6))}
    events = profile.profile(make, feeds, runs=1)
    products = [event for event in events if event.op_type == "MatMul"]
    assert len(products) == 5
    assert len([event for event in events if event.op_type == "Loop"]) == 1
    share = profile.shares(events, 1)[0]
    assert share.nodes == len({event.name for event in events})


def test_a_branch_is_seen_too():
    both = if_model(
        branch("then", "U", "T"), branch("otherwise", "U", "O"), [value("X", [2, 3]), value("U", [3, 4])]
    ).SerializeToString()

    def make(options: ort.SessionOptions) -> ort.InferenceSession:
        return ort.InferenceSession(both, options, providers=[CPU])

    feeds: dict[str, Any] = {"flag": np.array(True), "X": random((2, 3)), "U": random((3, 4))}
    events = profile.profile(make, feeds, runs=1)
    assert {"if", "then_matmul"} <= {event.name for event in events}
    assert "otherwise_matmul" not in {event.name for event in events}


def _raw(name: str, ts: int, dur: int, op: str = "Op", tid: int = 1, cat: str = "Node") -> dict[str, Any]:
    details = {"op_name": op, "provider": "P", "input_type_shape": [{"float16": [2, 3]}, {"int64": []}]}
    return {"cat": cat, "ph": "X", "name": name, "ts": ts, "dur": dur, "tid": tid, "args": details}


def test_times_by_hand(tmp_path: Path):
    """Two runs; in the second a Loop of 100 us with an If of 60 within, and a node of another thread."""
    path = tmp_path / "profile.json"
    document = [
        _raw("session_initialization", 0, 10, cat="Session"),
        _raw("warm_kernel_time", 20, 500),
        _raw("model_run", 15, 600, cat="Session"),
        _raw("inner_kernel_time", 1030, 20),
        _raw("if_kernel_time", 1010, 60, "If"),
        _raw("loop_kernel_time", 1000, 100, "Loop"),
        _raw("other_kernel_time", 1020, 30, tid=2),
        _raw("after_kernel_time", 1100, 7),
        _raw("openblas:sgemm", 1031, 5, cat="Kernel"),
        _raw("fence_before", 1031, 5),
        _raw("model_run", 990, 130, cat="Session"),
        {"ph": "M", "name": "process_name"},
    ]
    path.write_text(json.dumps(document))
    events = profile.read(path, skip_runs=1)
    found = {event.name: round(event.seconds * 1e6) for event in events}
    assert found == {"loop": 40, "if": 40, "inner": 20, "other": 30, "after": 7}
    assert events[0].input_types == ("float16", "int64")
    assert events[0].input_shapes == ((2, 3), ())
    assert events[0].output_shapes == ()
    assert profile.read(path)[0].name == "warm"
    assert profile.shares(events, 2) == [ProviderShare("P", 5, pytest.approx(137e-6 / 2))]
    with pytest.raises(ValueError, match="a profile of more than 2 runs, found 2"):
        profile.read(path, skip_runs=2)


@pytest.mark.parametrize("text", ["", "{", "5", "[1, 2]"])
def test_what_is_no_profile(tmp_path: Path, text: str):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"profile\.json: expected a profile of ONNX Runtime"):
        profile.read(path)


def test_shares_are_sorted_by_time():
    def event(name: str, provider: str, seconds: float) -> NodeEvent:
        return NodeEvent(name, "MatMul", provider, seconds, (), (), (), ())

    events = [event("a", "P", 1.0), event("b", "Q", 5.0), event("a", "P", 2.0), event("c", "P", 1.0)]
    assert profile.shares(events, 2) == [ProviderShare("Q", 1, 2.5), ProviderShare("P", 2, 2.0)]
    assert profile.shares([], 3) == []
