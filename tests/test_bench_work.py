from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import TensorProto, helper
from onnxruntime_ep_tunableop.bench import profile, work
from onnxruntime_ep_tunableop.bench.profile import Dimensions, NodeEvent
from onnxruntime_ep_tunableop.bench.work import Product
from support.graphs import graph, matmul_model, value
from support.sessions import EP, QUICK, random


def event(
    op: str, inputs: list[Dimensions], output: Dimensions, kind: str = "float", seconds: float = 1.0
) -> NodeEvent:
    kinds = (kind,) * len(inputs)
    return NodeEvent("node", op, "P", seconds, kinds, tuple(inputs), (kind,), (output,))


# What the product of these is, by hand: m, n, k, batch, and the elements that are moved.
HAND = {
    "plain": (("MatMul", [(3, 4), (4, 5)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 15),
    "packed weight": (("MatMul", [(3, 4)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 15),
    "row": (("MatMul", [(4,), (4, 5)], (5,)), (1, 5, 4, 1), 4 + 20 + 5),
    "row, packed": (("MatMul", [(4,)], (5,)), (1, 5, 4, 1), 4 + 20 + 5),
    "column": (("MatMul", [(3, 4), (4,)], (3,)), (3, 1, 4, 1), 12 + 4 + 3),
    "column, packed": (("MatMul", [(3, 4)], (3,)), (3, 1, 4, 1), 12 + 4 + 3),
    "dot": (("MatMul", [(4,), (4,)], ()), (1, 1, 4, 1), 4 + 4 + 1),
    "batches": (("MatMul", [(2, 6, 3, 4), (2, 6, 4, 5)], (2, 6, 3, 5)), (3, 5, 4, 12), 12 * (12 + 20 + 15)),
    "batch of A": (("MatMul", [(6, 3, 4), (4, 5)], (6, 3, 5)), (3, 5, 4, 6), 6 * 12 + 20 + 6 * 15),
    "batch of A, packed": (("MatMul", [(6, 3, 4)], (6, 3, 5)), (3, 5, 4, 6), 6 * 12 + 20 + 6 * 15),
    "batch of B": (("MatMul", [(3, 4), (6, 4, 5)], (6, 3, 5)), (3, 5, 4, 6), 12 + 6 * 20 + 6 * 15),
    "batch of B, packed": (("MatMul", [(1, 3, 4)], (6, 3, 5)), (3, 5, 4, 6), 12 + 6 * 20 + 6 * 15),
    "both broadcast": (
        ("MatMul", [(2, 1, 3, 4), (1, 7, 4, 5)], (2, 7, 3, 5)),
        (3, 5, 4, 14),
        2 * 12 + 7 * 20 + 14 * 15,
    ),
    "batch and a column": (("MatMul", [(6, 3, 4), (4,)], (6, 3)), (3, 1, 4, 6), 72 + 4 + 18),
    "row and a batch": (("MatMul", [(4,), (6, 4, 5)], (6, 5)), (1, 5, 4, 6), 4 + 120 + 30),
    "gemm": (("Gemm", [(3, 4), (4, 5), (5,)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 5 + 15),
    "gemm, A transposed": (("Gemm", [(4, 3), (4, 5)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 15),
    "gemm, both transposed": (("Gemm", [(4, 3), (5, 4), (3, 5)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 15 + 15),
    "gemm, packed": (("Gemm", [(3, 4)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 15),
    "gemm, packed with a bias": (("Gemm", [(3, 4), (5,)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 5 + 15),
    "gemm, packed with a C": (("FusedGemm", [(3, 4), (3, 5)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 15 + 15),
    "fused": (("FusedMatMul", [(2, 3, 4), (2, 4, 5)], (2, 3, 5)), (3, 5, 4, 2), 2 * (12 + 20 + 15)),
    "fused, transposed": (
        ("FusedMatMul", [(2, 4, 3), (2, 5, 4)], (2, 3, 5)),
        (3, 5, 4, 2),
        2 * (12 + 20 + 15),
    ),
    "fused, transposed, batch of B": (
        ("FusedMatMul", [(8, 64), (8, 64, 5)], (8, 8, 5)),
        (8, 5, 64, 8),
        512 + 8 * 320 + 8 * 40,
    ),
    "fused, batch inside": (
        ("FusedMatMul", [(3, 2, 4), (2, 4, 5)], (2, 3, 5)),
        (3, 5, 4, 2),
        2 * (12 + 20 + 15),
    ),
    "fused, batch inside, transposed": (
        ("FusedMatMul", [(4, 2, 3), (2, 4, 5)], (2, 3, 5)),
        (3, 5, 4, 2),
        2 * (12 + 20 + 15),
    ),
    "fused, row": (("FusedMatMul", [(4,), (4, 5)], (5,)), (1, 5, 4, 1), 4 + 20 + 5),
    "gelu": (("GemmFastGelu", [(2, 3, 4), (4, 5), (5,)], (2, 3, 5)), (3, 5, 4, 2), 24 + 20 + 5 + 30),
    "gelu, packed": (("GemmFastGelu", [(3, 4), (5,)], (3, 5)), (3, 5, 4, 1), 12 + 20 + 5 + 15),
    "nothing to add": (("MatMul", [(3, 0), (0, 5)], (3, 5)), (3, 5, 0, 1), 15),
}


@pytest.mark.parametrize("name", HAND)
def test_products_by_hand(name: str):
    arguments, (m, n, k, batch), elements = HAND[name]
    expected = Product(m, n, k, batch, 2.0 * m * n * k * batch, 4.0 * elements)
    assert work.of_event(event(*arguments)) == expected


@pytest.mark.parametrize(("kind", "size"), [("float16", 2), ("bfloat16", 2), ("float", 4), ("double", 8)])
def test_bytes_go_with_the_type(kind: str, size: int):
    for inputs in ([(3, 4), (4, 5)], [(3, 4)]):
        product = work.of_event(event("MatMul", inputs, (3, 5), kind))
        assert product is not None
        assert (product.flops, product.bytes) == (120.0, size * 47.0)


@pytest.mark.parametrize(
    "other",
    [
        event("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], (1, 4, 6, 6)),
        event("MatMulInteger", [(3, 4), (4, 5)], (3, 5), "uint8"),
        event("MatMul", [], (3, 5)),
        event("MatMul", [(4, 5)], (3, 5)),  # A is not there
        event("Gemm", [(3, 4), (4, 5)], (7, 5)),
        event("MatMul", [(3, 4), (4, 5)], (3, 5), "float8e4m3fn"),
        event("Gemm", [(0, 4), (4, 5)], (0, 5)),
    ],
)
def test_what_is_not_counted(other: NodeEvent):
    assert work.of_event(other) is None
    assert work.of_events([other]) == work.Work()


def test_sums_over_events_and_nodes():
    small, large = event("MatMul", [(3, 4), (4, 5)], (3, 5), seconds=1e-6), event("Gemm", [(6, 4)], (6, 5))
    other = NodeEvent("b", "Softmax", "P", 9.0, ("float",), ((3, 5),), ("float",), ((3, 5),))
    named = NodeEvent("b", "Gemm", "Q", 3e-6, *(getattr(large, key) for key in FIELDS))
    total = work.of_events([small, other, named, small])
    assert (total.flops, total.products) == (120 + 240 + 120, 3)
    assert total.bytes == 4 * (47 + 24 + 20 + 30 + 47)
    assert total.seconds == pytest.approx(5e-6)
    assert total.gflops == pytest.approx(480 / 5e-6 * 1e-9)
    assert total.gigabytes_per_second == pytest.approx(total.bytes / 5e-6 * 1e-9)
    assert set(total.by_node) == {("node", "P"), ("b", "Q")}
    node = total.by_node["node", "P"]
    assert (node.op_type, node.runs, node.flops, node.bytes) == ("MatMul", 2, 240.0, 8.0 * 47)
    assert node.seconds == pytest.approx(2e-6)
    assert work.Work().gflops == 0.0


FIELDS = ("input_types", "input_shapes", "output_types", "output_shapes")


def test_any_shapes_that_numpy_multiplies():
    hypothesis = pytest.importorskip("hypothesis")
    from hypothesis import strategies

    size = strategies.integers(1, 5)
    dimension = strategies.tuples(strategies.integers(2, 4), strategies.integers(0, 2))
    batch = strategies.lists(dimension, max_size=2)

    @hypothesis.given(size, size, size, batch, strategies.booleans(), strategies.booleans())
    def check(m: int, n: int, k: int, lead: list[tuple[int, int]], trans_a: bool, trans_b: bool) -> None:
        # 1: only A has the dimension, 2: only B, 0: both
        a = (*(1 if who == 2 else count for count, who in lead), m, k)
        b = (*(1 if who == 1 else count for count, who in lead), k, n)
        out = np.matmul(np.zeros(a), np.zeros(b)).shape
        count = math.prod(out[:-2])
        moved = 4.0 * (math.prod(a) + math.prod(b) + math.prod(out))
        expected = Product(m, n, k, count, 2.0 * m * n * k * count, moved)
        assert work.of_event(event("MatMul", [a, b], out)) == expected
        flipped = [(*x[:-2], x[-1], x[-2]) if flip else x for x, flip in ((a, trans_a), (b, trans_b))]
        assert work.of_event(event("FusedMatMul", flipped, out)) == expected

    check()


def _fused(**attributes: int) -> onnx.ModelProto:
    node = helper.make_node("FusedMatMul", ["A", "B"], ["Y"], domain="com.microsoft", **attributes)
    body = graph([node], [value("A", None), value("B", None)], [value("Y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(body, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    ("attributes", "a", "b"),
    [
        ({}, (2, 3, 4), (2, 4, 5)),
        ({"transA": 1, "transB": 1}, (2, 4, 3), (2, 5, 4)),
        ({"transBatchA": 1}, (3, 2, 4), (2, 4, 5)),
        ({"transBatchA": 1, "transA": 1, "transBatchB": 1}, (4, 2, 3), (4, 2, 5)),
    ],
)
def test_fused_products_as_onnxruntime_profiles_them(
    attributes: dict[str, int], a: Dimensions, b: Dimensions
):
    made = _fused(**attributes).SerializeToString()
    feeds: dict[str, Any] = {"A": random(a), "B": random(b)}
    (found,) = profile.profile(
        lambda options: ort.InferenceSession(made, options, providers=["CPUExecutionProvider"]), feeds, runs=1
    )
    assert found.op_type == "FusedMatMul"
    assert work.of_event(found) == Product(3, 5, 4, 2, 240.0, 8.0 * (12 + 20 + 15))


@pytest.mark.parametrize("provider", ["CPUExecutionProvider", EP])
def test_the_count_is_the_same_for_every_provider(provider: str):
    """Which weights are packed is up to the provider: the work is not."""
    made = matmul_model([2, 3, 4], None, constants={"B": random((4, 5), 1)}).SerializeToString()

    def make(options: ort.SessionOptions) -> ort.InferenceSession:
        if provider == EP:
            return tunableop.InferenceSession(made, options, **QUICK)
        return ort.InferenceSession(made, options, providers=[provider])

    total = work.of_events(profile.profile(make, {"A": random((2, 3, 4))}, runs=4))
    assert (total.products, total.flops, total.bytes) == (4, 4 * 240.0, 4 * 4.0 * (24 + 20 + 30))
    assert list(total.by_node) == [("node", provider)]


def test_a_whole_model_by_hand():
    """A layer of attention and a feed-forward: what its products need is known from its sizes."""
    tokens, width, inner = 6, 8, 16
    nodes = [
        helper.make_node("MatMul", ["X", "Wq"], ["Q"], name="q"),
        helper.make_node("MatMul", ["X", "Wk"], ["K"], name="k"),
        helper.make_node("Transpose", ["K"], ["Kt"], perm=[0, 2, 1], name="t"),
        helper.make_node("MatMul", ["Q", "Kt"], ["S"], name="scores"),
        helper.make_node("Softmax", ["S"], ["P"], name="p"),
        helper.make_node("MatMul", ["P", "X"], ["Z"], name="values"),
        helper.make_node("MatMul", ["Z", "Wu"], ["U"], name="up"),
        helper.make_node("Relu", ["U"], ["R"], name="relu"),
        helper.make_node("MatMul", ["R", "Wd"], ["Y"], name="down"),
    ]
    weights = {
        name: random(shape, seed)
        for seed, (name, shape) in enumerate(
            {"Wq": (width, width), "Wk": (width, width), "Wu": (width, inner), "Wd": (inner, width)}.items()
        )
    }
    body = graph(nodes, [value("X", [2, tokens, width])], [value("Y")], weights)
    made = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert made.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    rows = 2 * tokens
    flops = 2 * rows * (2 * width * width + 2 * tokens * width + 2 * width * inner)
    for make in (
        lambda options: ort.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        ),
        lambda options: tunableop.InferenceSession(made, options, **QUICK),
    ):
        total = work.of_events(profile.profile(make, {"X": random((2, tokens, width))}, runs=1))
        assert total.products == 6
        assert total.flops == flops


def test_the_time_in_products_is_that_of_the_median_run():
    """One run that met something else must not make products slower than the runs that they are part of."""

    def run(*seconds: float) -> list[NodeEvent]:
        shapes = ((4, 8), (8, 2)), ("float",), ((4, 2),)
        return [
            NodeEvent("p", kind, "CPU", one, ("float", "float"), *shapes)
            for kind, one in [("MatMul", seconds[0]), ("Relu", 100.0), ("MatMul", seconds[1])]
        ]

    events = [*run(1.0, 2.0), *run(1.0, 50.0), *run(2.0, 2.0)]
    assert work.median_seconds(events, 3) == 4.0
    assert work.median_seconds(events[:-1], 3) == (1 + 2 + 1 + 50 + 2) / 3, "not as many in each run"
    assert work.median_seconds([], 3) == 0.0
