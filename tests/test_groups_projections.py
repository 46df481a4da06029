"""Three products of one tensor that run as one on a card, and those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
from onnx import TensorProto, helper
from support.cards import BOTH, card_session, on_card
from support.graphs import graph, model, value
from support.sessions import random

TYPES = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16}
NUMPY = {"fp32": np.float32, "fp16": np.float16}
TOLERANCE = {"fp32": 1e-5, "fp16": 4e-3}
COLUMNS = {"q": 16, "k": 8, "v": 5}


def op(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], name=output, **attributes)


BIASED = [
    node
    for part in COLUMNS
    for node in (op("MatMul", f"X w{part}", f"m{part}"), op("Add", f"m{part} b{part}", f"Y{part}"))
]
PLAIN = [op("MatMul", f"X w{part}", f"Y{part}") for part in COLUMNS]
OUTPUTS = ["Yq", "Yk", "Yv"]


def built(nodes: list[onnx.NodeProto], outputs: list[str], dtype: str) -> onnx.ModelProto:
    """Input X [n, m, 12], and for each part a weight [12, columns] and a row of biases."""
    constants: dict[str, Any] = {}
    for seed, (part, columns) in enumerate(COLUMNS.items()):
        constants[f"w{part}"] = random((12, columns), seed).astype(NUMPY[dtype])
        constants[f"b{part}"] = random((columns,), seed + 9).astype(NUMPY[dtype])
    used = {name for node in nodes for name in node.input}
    constants = {name: array for name, array in constants.items() if name in used}
    kind = TYPES[dtype]
    results = [value(name, None, kind) for name in outputs]
    return model(graph(nodes, [value("X", ["n", "m", 12], kind)], results, constants))


def together(session: ort.InferenceSession) -> int:
    """How many products run as one with others."""
    return sum(node.reason.endswith("fused as Projections") for node in tunableop.explain(session).nodes)


def check(session: ort.InferenceSession, proto: onnx.ModelProto, dtype: str) -> None:
    """On both sides of the number of rows up to which there is one product."""
    reference = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for rows, columns in ((1, 1), (3, 4), (0, 4), (64, 4), (43, 6), (3, 4)):
        x = random((rows, columns, 12), rows + columns).astype(NUMPY[dtype])
        expected = reference.run(None, {"X": x})
        for got, wanted in zip(session.run(None, {"X": x}), expected, strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@on_card(*BOTH)
def test_three_products_are_one() -> None:
    for nodes in (BIASED, PLAIN):
        for dtype in TYPES:
            proto = built(nodes, OUTPUTS, dtype)
            session = card_session(proto, claim="all", tuning="online", max_tuning_ms=5)
            assert together(session) == 3, str(tunableop.explain(session))
            check(session, proto, dtype)


@on_card("cuda13")
def test_others_stay_apart() -> None:
    near: dict[str, tuple[list[onnx.NodeProto], list[str]]] = {
        "two of them": (PLAIN[:2], OUTPUTS[:2]),
        "a fourth": ([*PLAIN, op("MatMul", "X wq", "Z")], [*OUTPUTS, "Z"]),
        "one that nobody reads": (PLAIN, OUTPUTS[1:]),
        "a sum that nobody reads": (BIASED, OUTPUTS[:2]),
        "one with biases": ([*BIASED[:2], *PLAIN[1:]], OUTPUTS),
        "one by what is computed": (
            [op("Neg", "wq", "n"), op("MatMul", "X n", "Yq"), *PLAIN[1:]],
            OUTPUTS,
        ),
    }
    for what, (nodes, outputs) in near.items():
        proto = built(nodes, outputs, "fp32")
        settings = ort.SessionOptions()
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = card_session(proto, claim="all", settings=settings)
        assert together(session) == 0, f"{what}: {tunableop.explain(session)}"
        check(session, proto, "fp32")


@on_card("cuda13")
def test_what_others_read_is_an_output() -> None:
    """A product that is read without its biases, too, is one without."""
    nodes = [*BIASED, op("Neg", "mk", "n")]
    proto = built(nodes, [*OUTPUTS, "n"], "fp32")
    session = card_session(proto, claim="all")
    assert together(session) == 0, str(tunableop.explain(session))
    check(session, proto, "fp32")
    nodes = [op("MatMul", f"X w{part}", f"m{part}") for part in COLUMNS]
    nodes += [op("Add", f"m{part} m{part}", f"Y{part}") for part in COLUMNS]
    proto = built(nodes, [*OUTPUTS, "mq"], "fp32")
    session = card_session(proto, claim="all")
    assert together(session) == 3, str(tunableop.explain(session))
    check(session, proto, "fp32")
