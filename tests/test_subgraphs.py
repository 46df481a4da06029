"""MatMul inside If, Loop and functions: claimed there too, right, and explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime_ep_tunableop as tunableop
import pytest
from support.graphs import branch, graph, if_model, loop_model, value
from support.graphs import model as make_model
from support.sessions import calls, check_runs, ours, quick_session, random
from support.tolerance import Array, Exact, product


def explained(session: tunableop.InferenceSession) -> list[tuple[str, bool]]:
    return sorted((node.name, node.claimed) for node in tunableop.explain(session).nodes)


def test_matmul_in_both_branches_of_if() -> None:
    weights = {"W": random((6, 5), 1), "V": random((6, 5), 2)}
    model = if_model(branch("then", "W", "then_y"), branch("else", "V", "else_y"), [value("X", ["m", 6])])
    _add_initializers(model, weights)
    session = quick_session(model)
    x = random((4, 6), 3)
    for flag, weight in ((True, "W"), (False, "V"), (True, "W")):
        feeds = {"flag": np.array(flag), "X": x}
        check_runs(session, feeds, *product(x, weights[weight]))
    assert explained(session) == [("else_matmul", True), ("then_matmul", True)]
    assert calls(session) == 6


def test_branches_of_the_same_name_are_both_explained() -> None:
    weights = {"W": random((6, 5), 1), "V": random((6, 5), 2)}
    first, second = branch("then", "W", "then_y"), branch("else", "V", "else_y")
    first.name = second.name = "body"
    model = if_model(first, second, [value("X", ["m", 6])])
    _add_initializers(model, weights)
    assert explained(quick_session(model)) == [("else_matmul", True), ("then_matmul", True)]


def third_of_random() -> Array:
    """Small enough not to grow when it is applied again and again."""
    return (random((6, 6), 1) / 3).astype(np.float32)


def test_matmul_in_a_loop_body() -> None:
    weight = third_of_random()
    session = quick_session(loop_model(weight))
    x = random((4, 6), 2)
    exact: Exact = x.astype(np.float64)
    bound: Exact = np.zeros_like(exact)
    for _ in range(5):
        bound = bound @ np.abs(weight) + product(exact.astype(np.float32), weight)[1] * 4
        exact = exact @ weight
    feeds = {"count": np.array(5), "X": x}
    check_runs(session, feeds, exact, bound)
    assert explained(session) == [("loop_matmul", True)]
    assert calls(session) == 10


def test_matmul_in_an_if_inside_a_loop_and_in_the_main_graph() -> None:
    """Two levels down, with a weight of the outermost graph; and the same weight used above."""
    weight = third_of_random()
    inner = if_model(branch("then", "W", "then_y"), branch("else", "W", "else_y"), [])
    node = inner.graph.node[0]
    node.input[0], node.output[0] = "keep", "next"
    for part in node.attribute:
        part.g.node[0].input[0] = "state"
    model = loop_model(weight)
    body = next(attribute.g for attribute in model.graph.node[0].attribute if attribute.name == "body")
    body.node[0].CopyFrom(node)
    model.graph.node[0].output[0] = "looped"
    model.graph.node.append(onnx.helper.make_node("MatMul", ["looped", "W"], ["Y"], name="outer_matmul"))
    session = quick_session(model)
    x = random((3, 6), 2)
    got = session.run(None, {"count": np.array(2), "X": x})[0]
    np.testing.assert_allclose(got, x @ weight @ weight @ weight, rtol=1e-4, atol=1e-5)
    assert explained(session) == [("else_matmul", True), ("outer_matmul", True), ("then_matmul", True)]
    assert calls(session) == 3


def test_graph_parts_as_a_function_of_the_model() -> None:
    """A model-local function is inlined before providers are asked."""
    helper = onnx.helper
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    function = helper.make_function(
        "local", "Product", ["P", "Q"], ["R"], [helper.make_node("MatMul", ["P", "Q"], ["R"])], opsets[:1]
    )
    main = graph(
        [helper.make_node("Product", ["A", "B"], ["Y"], domain="local")],
        [value("A", [2, 3]), value("B", [3, 4])],
        [value("Y")],
    )
    model = helper.make_model(main, opset_imports=opsets, functions=[function], ir_version=8)
    session = quick_session(model)
    a, b = random((2, 3), 1), random((3, 4), 2)
    check_runs(session, {"A": a, "B": b}, *product(a, b))
    assert ours(session) == ["MatMul"]


def test_nodes_are_explained_once_when_a_function_was_inlined_between_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """onnxruntime asks a second time after it inlined the function operator in the middle."""
    helper = onnx.helper
    weights = {"W": random((6, 6), 1), "shape": np.array([3])}
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["P"], name="before"),
        helper.make_node("CenterCropPad", ["P", "shape"], ["Q"], axes=[0]),
        helper.make_node("MatMul", ["Q", "W"], ["Y"], name="after"),
    ]
    model = make_model(graph(nodes, [value("X", [3, 6])], [value("Y")], weights), 18)
    session = quick_session(model)
    assert ours(session) == ["MatMul", "MatMul"]
    assert explained(session) == [("after", True), ("before", True)]
    assert not caplog.records
    x = random((3, 6), 2)
    np.testing.assert_allclose(
        session.run(None, {"X": x})[0], x @ weights["W"] @ weights["W"], rtol=1e-4, atol=1e-4
    )


def _add_initializers(model: Any, arrays: dict[str, Array]) -> None:
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()
    )
