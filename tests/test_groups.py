"""Nodes that run as one on a card: a product with its biases, and the rules that all groups keep."""

from __future__ import annotations

import tempfile
from pathlib import Path
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

Nodes = list[onnx.NodeProto]
TYPES = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16}
NUMPY = {"fp32": np.float32, "fp16": np.float16}
TOLERANCE = {"fp32": 1e-5, "fp16": 4e-3}


def layers(nodes: Nodes, outputs: list[str], dtype: str = "fp32") -> onnx.ModelProto:
    """Input X [n, m, 8]; constants W [8, 12], B [12], V [12, 5], D [5], R [1, 12], of that type."""
    shapes = {"W": (8, 12), "B": (12,), "V": (12, 5), "D": (5,), "R": (1, 12)}
    constants: dict[str, Any] = {
        name: random(shape, seed).astype(NUMPY[dtype]) for seed, (name, shape) in enumerate(shapes.items())
    }
    kind = TYPES[dtype]
    return model(
        graph(
            nodes,
            [value("X", ["n", "m", 8], kind)],
            [value(name, None, kind) for name in outputs],
            constants,
        )
    )


def fused(session: ort.InferenceSession) -> dict[str, str]:
    """Of each node by its first output's kind of name: what it is fused as."""
    told = tunableop.explain(session)
    every = [*told.nodes, *told.operators]
    return {node.name: node.reason.partition(", fused as ")[2] for node in every if "fused as" in node.reason}


def check(session: ort.InferenceSession, proto: onnx.ModelProto, dtype: str = "fp32") -> None:
    """Several shapes in a row, each as the CPU provider has it."""
    reference = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for rows, columns in ((1, 1), (3, 4), (2, 7), (0, 4), (3, 4)):
        x = random((rows, columns, 8), rows + columns).astype(NUMPY[dtype])
        expected = reference.run(None, {"X": x})
        for got, wanted in zip(session.run(None, {"X": x}), expected, strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@on_card(*BOTH)
def test_a_product_and_its_biases_are_one() -> None:
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["a"], name="first"),
        helper.make_node("Add", ["B", "a"], ["b"], name="bias"),
        helper.make_node("Relu", ["b"], ["c"], name="relu"),
        helper.make_node("MatMul", ["c", "V"], ["d"], name="second"),
        helper.make_node("Add", ["d", "D"], ["Y"], name="last"),
    ]
    for dtype in TYPES:
        proto = layers(nodes, ["Y"], dtype)
        session = card_session(proto, claim="all", tuning="online", max_tuning_ms=5)
        every = ("first", "bias", "relu", "second", "last")
        assert fused(session) == dict.fromkeys(every, "MatMul+Add"), str(tunableop.explain(session))
        check(session, proto, dtype)
        told = str(tunableop.explain(session))
        assert "bias_relu" in told
        assert ",bias" in told.replace("bias_relu", ""), told
        apart = card_session(proto, claim="all", fused_groups=0)
        assert not fused(apart)
        check(apart, proto, dtype)


@on_card("cuda13")
def test_what_others_read_stays_apart() -> None:
    product = helper.make_node("MatMul", ["X", "W"], ["a"], name="product")
    add = helper.make_node("Add", ["a", "B"], ["b"], name="bias")
    near: dict[str, tuple[Nodes, list[str]]] = {
        "the product is an output": ([product, add], ["a", "b"]),
        "the product has two readers": ([product, add, helper.make_node("Neg", ["a"], ["c"])], ["b", "c"]),
        "added to itself": ([product, helper.make_node("Add", ["a", "a"], ["b"])], ["b"]),
        "a bias with more dimensions": ([product, helper.make_node("Add", ["a", "R"], ["b"])], ["b"]),
        "a computed bias": (
            [product, helper.make_node("Neg", ["B"], ["c"]), helper.make_node("Add", ["a", "c"], ["b"])],
            ["b"],
        ),
    }
    for what, (nodes, outputs) in near.items():
        proto = layers(nodes, outputs)
        session = card_session(proto, claim="all", settings=unoptimised())
        assert not fused(session), f"{what}: {tunableop.explain(session)}"
        check(session, proto)


@on_card(*BOTH)
def test_a_model_that_is_written_has_no_groups() -> None:
    """ONNX Runtime refuses to write them."""
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["a"], name="product"),
        helper.make_node("Add", ["a", "B"], ["Y"], name="bias"),
    ]
    proto = layers(nodes, ["Y"])
    with tempfile.TemporaryDirectory() as folder:
        for given in (False, True):
            path = Path(folder) / f"{given}.onnx"
            options = tunableop.session_options(tuning="off", claim="all") if given else ort.SessionOptions()
            options.optimized_model_filepath = str(path)
            named: dict[str, Any] = {} if given else {"tuning": "off", "claim": "all"}
            session = tunableop.InferenceSession(proto.SerializeToString(), options, **named)
            assert not fused(session), str(tunableop.explain(session))
            check(session, proto)
            written = onnx.load(path)
            check(tunableop.InferenceSession(written.SerializeToString(), tuning="off"), proto)
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(path)
        with pytest.raises(Exception, match="compiled nodes"):
            tunableop.InferenceSession(proto.SerializeToString(), options, tuning="off", fused_groups=True)


def unoptimised() -> ort.SessionOptions:
    """Else constants are folded."""
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return settings


@on_card("cuda13")
def test_what_was_said_of_nodes_holds_when_onnxruntime_asks_again() -> None:
    """It does when a function's nodes take the place of a call of it: those of a group are one by then."""
    nodes = [
        helper.make_node("MatMul", ["X", "W"], ["a"], name="product"),
        helper.make_node("Add", ["a", "B"], ["b"], name="biases"),
        helper.make_node("Hardmax", ["b"], ["c"], name="elsewhere"),
        helper.make_node("NegativeLogLikelihoodLoss", ["c", "t"], ["d"], name="a function"),
        helper.make_node("Add", ["b", "d"], ["Y"], name="sum"),
    ]
    constants = {"W": random((8, 12), 1), "B": random((12,), 2), "t": np.zeros((1, 12), np.int64)}
    inputs = [value("X", [1, 3, 8], TYPES["fp32"])]
    proto = model(graph(nodes, inputs, [value("Y", None, TYPES["fp32"])], constants))
    session = tunableop.InferenceSession(proto.SerializeToString(), device="cuda", claim="all", tuning="off")
    told = tunableop.explain(session)
    said = {node.name: node.reason for node in [*told.nodes, *told.operators] if node.name}
    assert said["product"] == "claimed: fp32, B is a weight, fused as MatMul+Add"
    assert said["biases"] == "claimed: fp32, fused as MatMul+Add"
    assert said["elsewhere"] == "refused: there is no kernel of this operator"
    assert said["sum"] == "claimed: fp32"
    assert "a function" not in said, "it is nodes now, and the test is about nothing otherwise"
    assert not [node for node in told.operators if "TunableOp" in node.op_type]
    reference = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = random((1, 3, 8), 5)
    np.testing.assert_allclose(session.run(None, {"X": x})[0], reference.run(None, {"X": x})[0], rtol=1e-5)
