"""The stock provider's kernel is measured beside ours, and gets the nodes where it is faster."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import helper, numpy_helper
from support.graphs import graph, if_model, model, value
from support.sessions import assigned, quick_session, random
from support.tolerance import assert_close, product
from support.waiting import until_stats
from test_background import BACKGROUND, ENOUGH, run

A, B, W = random((48, 96), 1), random((96, 80), 2), random((80, 64), 3)


def two_products() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["A", "B"], ["X"], name="first"),
        helper.make_node("MatMul", ["X", "W"], ["Y"], name="second"),
    ]
    return model(graph(nodes, [value("A", ["m", 96])], [value("Y")], {"B": B, "W": W}))


MODEL = two_products()


def on_ours(session: Any) -> list[str]:
    return sorted(name for provider, _, name in assigned(session) if provider == tunableop.get_ep_name())


@pytest.mark.parametrize("threads", [1, 2])
def test_the_stock_kernel_is_measured_in_the_background(threads: int, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    # Enough for the stock kernel too, on a busy machine or under a sanitizer.
    options = BACKGROUND | {"max_tuning_ms": 500.0}
    session = tunableop.InferenceSession(MODEL, cache=path, threads=threads, **options)
    run(session, A, times=ENOUGH)
    until_stats(session, tuned=2)
    run(session, A, times=10)
    shapes = tunableop.explain(session).shapes
    assert all(shape.stock_milliseconds > 0 for shape in shapes), tunableop.explain(session)
    del session
    gc.collect()
    (machine,) = json.loads(path.read_text())["machines"]
    nodes = {node["name"]: node for node in machine["nodes"]}
    assert set(nodes) == {"first", "second"}
    assert (nodes["first"]["k"], nodes["first"]["n"]) == (96, 80)
    for node in nodes.values():
        assert node["uses"] >= 10
        assert node["stock_ms"] > 0
        assert node["ours_ms"] > 0
        # It wins only where it is really faster.
        assert not node["stock"] or node["stock_ms"] < node["ours_ms"]


def with_verdict(path: Path, stock: bool) -> None:
    """A file that says of the first node whether the stock provider is faster."""
    session = quick_session(MODEL)
    run(session, A)
    results = tunableop.get_tuning_results(session)
    results["machines"][0]["nodes"] = [
        {
            "op": "MatMul",
            "name": "first",
            "k": 96,
            "n": 80,
            "uses": 1000,
            "ours_ms": 0.4,
            "stock_ms": 0.3 if stock else 0.5,
            "stock": stock,
            "measured_at": 1_800_000_000,
        }
    ]
    path.write_text(json.dumps(results))


def test_a_node_is_left_to_the_stock_provider_where_that_is_faster(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with_verdict(path, stock=True)
    session = quick_session(MODEL, cache=path)
    assert on_ours(session) == ["second"]
    (reason,) = (node.reason for node in tunableop.explain(session).nodes if node.name == "first")
    assert "stock provider is faster here: 0.3 ms against 0.4 ms, over 1000 calls" in reason
    exact, _ = product(A, B)
    assert_close(session.run(None, {"A": A})[0], exact @ W.astype(np.float64), 1e-3 + np.zeros((48, 64)))
    # The verdict outlives a session that did not measure the node.
    run(session, random((7, 96)))
    del session
    gc.collect()
    assert on_ours(quick_session(MODEL, cache=path)) == ["second"]


def test_the_verdict_is_ignored_when_all_is_to_be_claimed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with_verdict(path, stock=True)
    assert on_ours(quick_session(MODEL, cache=path, claim="all")) == ["first", "second"]


def test_a_node_where_ours_is_faster_is_claimed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with_verdict(path, stock=False)
    assert on_ours(quick_session(MODEL, cache=path)) == ["first", "second"]


def test_another_model_with_a_node_of_that_name_is_not_concerned(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with_verdict(path, stock=True)
    node = helper.make_node("MatMul", ["A", "B"], ["Y"], name="first")
    other = model(graph([node], [value("A", ["m", 96])], [value("Y")], {"B": random((96, 40))}))
    assert on_ours(quick_session(other, cache=path)) == ["first"]


def test_nodes_of_one_name_are_judged_together() -> None:
    """A file cannot tell them apart, so neither may get the other's verdict."""

    def branch(name: str, weight: str) -> onnx.GraphProto:
        node = helper.make_node("MatMul", ["A", weight], [f"{name}_out"], name="same")
        return graph([node], [], [value(f"{name}_out")], name=name)

    made = if_model(branch("then", "V"), branch("else", "W"), [value("A", ["m", 96])])
    weights = {"V": B, "W": random((96, 80), 4)}
    made.graph.initializer.extend(numpy_helper.from_array(w, name) for name, w in weights.items())
    session = tunableop.InferenceSession(made, threads=1, **BACKGROUND)

    def use(times: int) -> None:
        for i in range(times):
            session.run(None, {"A": A, "flag": np.array(i % 3 == 0)})

    use(2 * ENOUGH)
    until_stats(session, tuned=1)
    use(300)
    (section,) = tunableop.get_tuning_results(session)["machines"]
    (node,) = section["nodes"]
    assert node["uses"] == tunableop.stats(session).hits
