"""Numbers that are made of shapes, on a card: applied without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper
from support.cards import BOTH, card_session, on_card
from support.graphs import graph, model, value
from support.sessions import random
from test_operators import profiled, ran

NUMPY = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}
TOLERANCE = {TensorProto.FLOAT: 1e-5, TensorProto.FLOAT16: 4e-3}


def scores(kind: int, *, shared: bool = False, gather: bool = False) -> onnx.ModelProto:
    """softmax((q s) (k s)) as exporters write it: s comes of the shape of q, which others may read, too."""
    part = (
        helper.make_node("Gather", ["shape", "last"], ["size"])
        if gather
        else helper.make_node("Slice", ["shape", "last_1", "end_1"], ["size"])
    )
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["q"]),
        helper.make_node("Transpose", ["X"], ["k"], perm=[0, 2, 1]),
        helper.make_node("Shape", ["q"], ["shape"], name="shape"),
        part,
        helper.make_node("Cast", ["size"], ["whole"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["whole"], ["root"], name="root"),
        helper.make_node("Div", ["one", "root"], ["scale32"], name="inverse"),
        helper.make_node("Cast", ["scale32"], ["scale"], to=kind),
        helper.make_node("Sqrt", ["scale"], ["s"]),
        helper.make_node("Mul", ["q", "s"], ["qs"], name="first"),
        helper.make_node("Mul", ["s", "k"], ["ks"], name="second"),
        helper.make_node("MatMul", ["qs", "ks"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["Y"], axis=-1),
    ]
    if shared:
        nodes.append(helper.make_node("Identity", ["shape"], ["S"]))
    constants: dict[str, Any] = {
        "W": random((8, 8), 1).astype(NUMPY[kind]),
        "one": np.array([1.0], np.float32) if not gather else np.array(1.0, np.float32),
        "last": np.array(-1, np.int64),
        "last_1": np.array([-1], np.int64),
        "end_1": np.array([np.iinfo(np.int64).max], np.int64),
    }
    outputs = [value("Y", None, kind), *([value("S", None, TensorProto.INT64)] if shared else [])]
    proto = model(graph(nodes, [value("X", ["n", "m", 8], kind)], outputs, constants))
    return onnx.shape_inference.infer_shapes(proto)


def check(session: ort.InferenceSession, proto: onnx.ModelProto, kind: int) -> None:
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for rows, columns in ((2, 3), (1, 5), (0, 4), (3, 1)):
        feeds = {"X": random((rows, columns, 8), rows + columns).astype(NUMPY[kind])}
        for got, expected in zip(session.run(None, feeds), stock.run(None, feeds), strict=True):
            np.testing.assert_allclose(got, expected, rtol=TOLERANCE[kind], atol=TOLERANCE[kind])


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.FLOAT16])
@pytest.mark.parametrize("gather", [False, True])
@on_card(*BOTH)
def test_a_scale_that_comes_of_a_shape_costs_no_copy(kind: int, gather: bool) -> None:
    proto = scores(kind, gather=gather)
    session = card_session(proto, settings=profiled(), claim="all")
    told = tunableop.explain(session)
    reasons = {node.name: node.reason for node in told.operators}
    for name in ("shape", "root", "inverse", "first", "second"):
        assert reasons[name].endswith("fused as Shape+Scale"), str(told)
    check(session, proto, kind)
    _, nodes = ran(session, {"X": random((2, 3, 8), 3).astype(NUMPY[kind])})
    assert not [op for _, op in nodes if op.startswith("Memcpy")], nodes
    check(card_session(proto, claim="all", fused_groups=0), proto, kind)


@on_card(*BOTH)
def test_a_shape_that_others_read_stays_apart() -> None:
    proto = scores(TensorProto.FLOAT, shared=True)
    session = card_session(proto, claim="all")
    assert "Shape+Scale" not in str(tunableop.explain(session))
    check(session, proto, TensorProto.FLOAT)


@on_card("cuda13")
def test_whole_numbers_and_other_operators() -> None:
    """Places behind a past, as decoders count them; what is left over of a half."""
    nodes = [
        helper.make_node("Cast", ["X"], ["ids"], to=TensorProto.INT64),
        helper.make_node("Shape", ["past"], ["sizes"], start=1, end=2),
        helper.make_node("Squeeze", ["sizes"], ["before"]),
        helper.make_node("Mul", ["before", "two"], ["twice"]),
        helper.make_node("Sub", ["twice", "three"], ["number"]),
        helper.make_node("Div", ["number", "two"], ["half"]),
        helper.make_node("Add", ["ids", "half"], ["a"], name="add"),
        helper.make_node("Sub", ["half", "ids"], ["b"], name="sub"),
    ]
    constants = {"two": np.array(2, np.int64), "three": np.array(3, np.int64)}
    integer = TensorProto.INT64
    proto = onnx.shape_inference.infer_shapes(
        model(
            graph(
                nodes,
                [value("X", ["n", "m"]), value("past", ["n", "p", 2])],
                [value(name, None, integer) for name in "ab"],
                constants,
            )
        )
    )
    session = card_session(proto, settings=profiled(), claim="all")
    reasons = {node.name: node.reason for node in tunableop.explain(session).operators}
    assert reasons["add"] == reasons["sub"] == "claimed: int64, fused as Shape+Scale", reasons
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for past in (0, 1, 2, 7):
        feeds = {
            "X": np.arange(6, dtype=np.float32).reshape(2, 3),
            "past": random((2, past, 2), 1),
        }
        for got, expected in zip(session.run(None, feeds), stock.run(None, feeds), strict=True):
            assert np.array_equal(got, expected)
    _, ops = ran(session, feeds)
    assert not [op for _, op in ops if op.startswith("Memcpy")], ops


@on_card("cuda13")
def test_numbers_of_which_more_is_asked_are_calculated_where_they_were() -> None:
    number = [
        helper.make_node("Tanh", ["X"], ["x"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["sizes"], to=TensorProto.FLOAT),
        helper.make_node("Gather", ["sizes", "last"], ["s"]),
    ]
    row = [
        helper.make_node("Unsqueeze", ["sizes", "first"], ["matrix"]),
        helper.make_node("Gather", ["matrix", "zero"], ["row"]),
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Mul", ["t", "row"], ["Y"]),
    ]
    table = [
        helper.make_node("Unsqueeze", ["sizes", "first"], ["across"]),
        helper.make_node("Unsqueeze", ["sizes", "second"], ["down"]),
        helper.make_node("Mul", ["across", "down"], ["table"]),
        helper.make_node("Gather", ["table", "zero"], ["row"]),
        *row[2:],
    ]
    near = {
        "applied twice": [
            *number,
            helper.make_node("Mul", ["x", "s"], ["a"]),
            helper.make_node("Mul", ["a", "s"], ["Y"]),
        ],
        "applied to what nobody reads": [
            *number,
            helper.make_node("Mul", ["x", "s"], ["a"]),
            helper.make_node("Div", ["x", "s"], ["Y"]),
        ],
        "a row of sizes": [*number[:3], *row],
        "sizes by sizes": [*number[:3], *table],
    }
    constants = {
        "last": np.array(-1, np.int64),
        "zero": np.array(0, np.int64),
        "first": np.array([0], np.int64),
        "second": np.array([1], np.int64),
    }
    for what, nodes in near.items():
        used = {name for node in nodes for name in node.input}
        kept: dict[str, Any] = {name: array for name, array in constants.items() if name in used}
        proto = onnx.shape_inference.infer_shapes(
            model(graph(nodes, [value("X", ["a", 3, "c"])], [value("Y", None)], kept))
        )
        stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        session = card_session(proto, settings=profiled(), claim="all")
        assert "Shape+Scale" not in str(tunableop.explain(session)), what
        for sizes in ((2, 3, 4), (1, 3, 7)):
            feeds = {"X": random(sizes, 1)}
            expected = stock.run(None, feeds)[0]
            np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-5, err_msg=what)
