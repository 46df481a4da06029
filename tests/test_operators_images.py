"""Operators of images, and products that say how they are read, on a card against the CPU provider."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
import pytest
from onnx import helper
from support.cards import BOTH, card_session, on_card
from support.graphs import graph, model, value
from support.operators import CONTRIB, Case, Shapes, check, ints, some
from support.sessions import random

Array = npt.NDArray[Any]
F32, F16, F64, I32, I64, U8 = np.float32, np.float16, np.float64, np.int32, np.int64, np.uint8

#: An image's dimensions, and a window's attributes.
WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((9,), {"kernel_shape": [3]}),
    ((9,), {"kernel_shape": [3], "strides": [2], "pads": [1, 2]}),
    ((10,), {"kernel_shape": [3], "strides": [4], "ceil_mode": 1}),
    ((10,), {"kernel_shape": [2], "strides": [3], "pads": [0, 1], "ceil_mode": 1}),
    ((5,), {"kernel_shape": [2], "strides": [3], "pads": [1, 1], "ceil_mode": 1}),
    ((7, 8), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]}),
    ((7, 8), {"kernel_shape": [3, 3], "strides": [2, 3], "auto_pad": "SAME_UPPER"}),
    ((7, 8), {"kernel_shape": [2, 4], "strides": [3, 2], "auto_pad": "SAME_LOWER"}),
    ((7, 8), {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "VALID", "ceil_mode": 1}),
    ((2, 6), {"kernel_shape": [3, 3]}),
    ((1,), {"kernel_shape": [3], "strides": [9]}),
    ((2,), {"kernel_shape": [5], "strides": [2], "pads": [0, 2]}),
    ((5, 1), {"kernel_shape": [3, 3], "strides": [1, 2], "ceil_mode": 1}),
    ((33, 40), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((5, 4, 6), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 3], "pads": [1, 0, 1, 0, 2, 1]}),
]


def pool() -> Iterator[Case]:
    for size, window in WINDOWS:
        for dtype in (F32, F64):
            x = some((2, 3, *size), dtype, 1)
            yield Case("MaxPool", [x], window, opset=12)
            yield Case("MaxPool", [x], window, outputs=2, opset=22)
            if dtype == F64:
                continue  # which ONNX Runtime has no averages of
            for counts in (0, 1):
                for opset in (11, 19):
                    more = {"count_include_pad": counts}
                    yield Case("AveragePool", [x], window | more, opset=opset, loose=4.0)
        yield Case("MaxPool", [some((1, 2, *size), U8)], window, opset=12)
        wide = window | {"dilations": [2 + i for i in range(len(size))]}
        if min(size) > 6 and "auto_pad" not in window:
            yield Case("MaxPool", [some((1, 2, *size))], wide, opset=12, outputs=2)
            yield Case("AveragePool", [some((1, 2, *size))], wide, opset=19, loose=4.0)
    # Windows that see nothing but padding.
    gaps = {"kernel_shape": [2], "pads": [1, 1], "dilations": [3]}
    for dtype in (F32, F64, U8):
        yield Case("MaxPool", [some((2, 3, 2), dtype)], gaps, opset=12, outputs=2)
    for shape in ((0, 3, 4, 4), (0, 0, 4, 4)):
        yield Case("MaxPool", [some(shape)], {"kernel_shape": [2, 2]}, opset=12)
        yield Case("GlobalMaxPool", [some(shape)], opset=12)
    for dtype in (F16, "bf16"):
        x = some((2, 3, 9, 8), dtype, 1)
        for op in ("MaxPool", "AveragePool"):
            yield Case(op, [x], WINDOWS[5][1], opset=22, bf16=dtype == "bf16")
    for size in ((9,), (7, 8), (5, 4, 6), (1, 1), (40, 41)):
        for op, dtype in (("GlobalMaxPool", F32), ("GlobalAveragePool", F32), ("GlobalAveragePool", F16)):
            yield Case(op, [some((2, 3, *size), dtype)], opset=22 if dtype == F16 else 11, loose=16.0)


def channels() -> Iterator[Case]:
    for shape in ((2, 3, 5, 7), (1, 8, 33), (4, 6), (2, 4, 2, 3, 2), (3, 1, 4), (0, 3, 4)):
        count = shape[1]
        for dtype in (F32, F16, "bf16"):
            row = [some((count,), dtype, n) for n in range(3)]
            variance = np.abs(some((count,), dtype, 5)) + np.asarray(0.2, F32 if dtype == "bf16" else dtype)
            x = some(shape, dtype, 1)
            norm: dict[str, Any] = {"epsilon": 1e-3}
            more: dict[str, Any] = {"bf16": dtype == "bf16", "loose": 16.0 if dtype == F32 else 4.0}
            yield Case("BatchNormalization", [x, *row, variance], norm, opset=15, **more)
            if dtype == F16:
                singles = [one.astype(F32) for one in (*row, variance)]
                yield Case("BatchNormalization", [x, *singles], opset=15, **more)
            if dtype == F32:
                yield Case("BatchNormalization", [x, *row, variance], opset=9, constants=(1, 2, 3, 4), **more)
            if len(shape) < 3 or shape[0] == 0:
                continue
            yield Case("InstanceNormalization", [x, row[0], row[1]], norm, opset=22, **more)
            for groups in {1, count, 2 if count % 2 == 0 else 1}:
                attributes = norm | {"num_groups": groups}
                yield Case("GroupNormalization", [x, row[0], row[1]], attributes, opset=21, **more)


def squares() -> Iterator[Case]:
    for dtype in (F32, F64, U8):
        for mode in ("DCR", "CRD"):
            yield Case("DepthToSpace", [some((2, 12, 3, 4), dtype)], {"blocksize": 2, "mode": mode}, opset=13)
        yield Case(
            "SpaceToDepth", [some((2, 3, 4, 6), F32 if dtype == U8 else dtype)], {"blocksize": 2}, opset=13
        )
    yield Case("DepthToSpace", [some((1, 9, 1, 2))], {"blocksize": 3}, opset=11)


def one_hot() -> Iterator[Case]:
    places = np.array([[0, 3, -1], [4, -4, -5]], I64)
    for dtype, kind in ((F32, I64), (I64, I64), (F32, I32)):
        for axis in (-1, 0, 1, -3):
            inputs: list[Array | None] = [places.astype(kind), np.array(4, kind), np.array([2, 7], dtype)]
            yield Case("OneHot", inputs, {"axis": axis}, opset=11)
        yield Case("OneHot", [np.zeros((0, 2), kind), np.array([3], kind), np.array([0, 1], dtype)], opset=9)


def conv3() -> Iterator[Case]:
    for x, w, attributes in (
        ((2, 3, 5, 6, 7), (4, 3, 1, 1, 1), {}),
        ((2, 3, 5, 6, 7), (4, 3, 2, 3, 2), {"pads": [1, 0, 1, 0, 2, 1], "strides": [2, 1, 2]}),
        ((1, 4, 6, 6, 6), (6, 2, 2, 2, 2), {"group": 2, "dilations": [2, 1, 3]}),
        ((1, 2, 4, 5, 6), (3, 2, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2, 2]}),
    ):
        for dtype in (F32, F16):
            scale = np.asarray(np.sqrt(3.0 / np.prod(w[1:])), dtype)
            inputs = [some(x, dtype, 1), some(w, dtype, 2) * scale, some(w[:1], dtype, 3)]
            yield Case("Conv", inputs, attributes, opset=11, loose=8.0)
            window: dict[str, Any] = attributes | {"kernel_shape": list(w[2:])}
            yield Case("Conv", inputs[:2], window, opset=22, constants=(1,), loose=8.0)


def resize() -> Iterator[Case]:
    places = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    sizes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((2, 3, 5, 6), (2, 3, 10, 12)),
        ((1, 2, 6, 7), (1, 2, 3, 9)),
        ((1, 1, 1, 5), (1, 1, 4, 1)),
        ((4, 6), (7, 5)),
        ((1, 2, 3, 4, 5), (1, 2, 6, 5, 4)),
    ]
    for (shape, to), place in itertools.product(sizes, places):
        how: dict[str, Any] = {"coordinate_transformation_mode": place}
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            nearest = how | {"nearest_mode": rounding}
            yield Case("Resize", [some(shape), None, None, ints(*to)], nearest, opset=13, constants=(3,))
        linear = how | {"mode": "linear"}
        yield Case(
            "Resize", [some(shape), None, None, ints(*to)], linear, opset=13, constants=(3,), loose=8.0
        )
        yield Case(
            "Resize", [some(shape, F16), None, None, ints(*to)], linear, opset=19, constants=(3,), loose=2.0
        )
        factors = np.array([b / a for a, b in zip(shape, to, strict=True)], F32) * F32(1.01)
        factors[: -2 if len(shape) < 5 else -3] = 1
        yield Case("Resize", [some(shape), None, factors], linear, opset=13, constants=(2,), loose=8.0)
        yield Case("Resize", [some(shape), np.zeros(0, F32), factors], how, opset=11, constants=(2,))
    # What keeps its size is the same, whatever the factors.
    for mode, factors in itertools.product(("nearest", "linear"), ((1.2, 1.4), (1.0, 1.45), (2.0, 1.45))):
        given = [some((4, 2)), None, np.array(factors, F32)]
        yield Case("Resize", given, {"mode": mode}, opset=19, loose=8.0, constants=(2,))
    for mode in ("nearest", "linear"):
        symmetric = {"coordinate_transformation_mode": "half_pixel_symmetric", "mode": mode}
        image, factor = some((1, 2, 5, 7)), np.array([1.7, 0.6], F32)
        yield Case(
            "Resize", [image, None, factor], symmetric | {"axes": [2, 3]}, opset=19, loose=8.0, constants=(2,)
        )
        yield Case(
            "Resize",
            [image, None, None, ints(9, 3)],
            {"mode": mode, "axes": [-2, -1]},
            opset=18,
            loose=8.0,
            constants=(3,),
        )


def top_k() -> Iterator[Case]:
    for shape, axis in (
        ((3, 40), -1),
        ((3, 40), 0),
        ((2, 5, 4), 1),
        ((700,), 0),
        ((2, 3000), 1),
        ((64, 8), -1),
    ):
        for dtype in (F32, F64, I64, I32):
            for kept in {1, min(2, shape[axis]), shape[axis] if shape[axis] < 100 else 9}:
                for largest in (0, 1):
                    attributes = {"axis": axis, "largest": largest}
                    yield Case("TopK", [some(shape, dtype), ints(kept)], attributes, opset=11, outputs=2)
    yield Case("TopK", [np.ones((2, 50), F32), ints(7)], opset=11, outputs=2, note="equal")
    yield Case("TopK", [some((2, 5)), ints(0)], opset=11, outputs=2)
    lowest = np.full((1, 40), -np.inf, F32)
    yield Case("TopK", [lowest, ints(3)], opset=11, outputs=2, note="lowest")
    yield Case("TopK", [-lowest, ints(3)], {"largest": 0}, opset=11, outputs=2, note="highest")


def more_activations() -> Iterator[Case]:
    for dtype in (F32, F16):
        x = some((3, 41), dtype, 1, -4, 4)
        yield Case("Celu", [x.astype(F32)], {"alpha": 0.7}, opset=12, loose=4.0)
        yield Case("Mish", [x], opset=22, loose=4.0)
        yield Case("Selu", [x], opset=22, loose=4.0)
        yield Case("Selu", [x], {"alpha": 1.2, "gamma": 0.7}, opset=22, loose=4.0)
        yield Case("Softsign", [x], opset=22)
        yield Case("ThresholdedRelu", [x], {"alpha": 0.5}, opset=22)
    special = np.array([np.nan, np.inf, -np.inf, 1.0, 2.0], F32)
    for op in ("Celu", "Mish", "Selu", "Softsign", "ThresholdedRelu"):
        yield Case(op, [special], opset=12 if op == "Celu" else 22, note="special")
    for op in ("ReduceMax", "ReduceMin"):
        for given in (some((3, 4, 37), np.bool_), some((3, 4, 37), U8)):
            yield Case(op, [given, ints(2)], {"keepdims": 0}, opset=20)
            yield Case(op, [given, ints(0, 1)], opset=20)


def products() -> Iterator[Case]:
    for dtype in (F32, F16, F64):
        for a, b in (
            ((4, 6), (6, 5)),
            ((2, 3, 4, 6), (6, 5)),
            ((2, 3, 4, 6), (3, 6, 5)),
            ((3, 1, 4, 6), (2, 6, 5)),
        ):
            for turns_a, turns_b in ((0, 0), (1, 0), (0, 1), (1, 1)):
                left, right = some(a, dtype, 1), some(b, dtype, 2)
                if turns_a:
                    left = np.ascontiguousarray(left.swapaxes(-1, -2))
                if turns_b:
                    right = np.ascontiguousarray(right.swapaxes(-1, -2))
                attributes = {"transA": turns_a, "transB": turns_b, "alpha": 0.125}
                yield Case("FusedMatMul", [left, right], attributes, domain=CONTRIB, loose=8.0)
    yield Case("FusedMatMul", [some((2, 4, 0)), some((0, 5))], {"alpha": 2.0}, domain=CONTRIB)
    yield Case("FusedMatMul", [some((6,)), some((6, 5))], {"alpha": 2.0}, domain=CONTRIB, loose=8.0)
    sizes = {"b": 2, "h": 3, "i": 4, "j": 5, "d": 6, "e": 7, "k": 1}
    for equation in (
        "bij,bjd->bid",
        "bhid,bhjd->bhij",
        "bihd,bjhd->bhij",
        "bhij,bjhd->bihd",
        "bid,de->bie",
        "bid,ed->bie",
        "bihd,hde->bie",
        "bid,dhe->bhie",
        "bhid,ijd->bhij",
        "di,dj->ij",
        "id,jd->ji",
        "i,j->ij",
        "bi,bi->b",
        "ij,ij->",
        "ij,ij->ij",
        "ib,bj",
        "bihd->bhdi",
        "bij -> jib",
    ):
        letters = equation.replace(" ", "").split("->")[0].split(",")
        for dtype in (F32, F64):
            inputs: list[Array | None] = [
                some(tuple(sizes[c] for c in one), dtype, n) for n, one in enumerate(letters)
            ]
            yield Case("Einsum", inputs, {"equation": equation}, opset=12, loose=8.0)
    yield Case(
        "Einsum", [some((2, 1, 4)), some((2, 3, 4, 5), F32, 2)], {"equation": "bhi,bhij->bhj"}, loose=8.0
    )
    yield Case("Einsum", [some((0, 4)), some((4, 5))], {"equation": "bi,ij->bj"})
    yield Case("Einsum", [some((3, 0)), some((0, 5))], {"equation": "bi,ij->bj"})


EVERY = (pool, channels, squares, one_hot, conv3, resize, top_k, more_activations, products)
FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {family.__name__: family for family in EVERY}


@pytest.mark.parametrize("family", FAMILIES)
@on_card(*BOTH)
def test_every_case_is_right_on_the_card(family: str) -> None:
    cases = list(FAMILIES[family]())
    counts = check(cases)
    assert counts.total() == len(cases)


@pytest.mark.parametrize("shapes", ["free", "unknown"])
@pytest.mark.parametrize("family", FAMILIES)
@on_card("cuda13")
def test_what_is_claimed_without_its_shapes_is_right_too(family: str, shapes: Shapes) -> None:
    cases = list(FAMILIES[family]())
    counts = check(cases, shapes)
    assert counts.total() >= len(cases) - (8 if family == "conv3" else 0)  # without a kernel_shape


@on_card("rocm7")
def test_what_is_no_product_or_counts_otherwise_is_refused_in_words() -> None:
    x, square = random((2, 3), 1), random((1, 1, 4, 4), 2)
    row, region, factors = random((1,), 3), np.zeros(8, F32), np.ones(4, F32)
    training = {"training_mode": 1}
    cases: list[tuple[str, list[Array], dict[str, Any], str, str]] = [
        ("Einsum", [x, x, x], {"equation": "ij,ij,ij->i"}, "", "ij,ij,ij->i is no product of two operands"),
        ("Einsum", [x], {"equation": "ij->i"}, "", "ij->i is no product"),
        ("Einsum", [x, x], {"equation": "...j,...j->..."}, "", "is no product"),
        ("Einsum", [x, x], {"equation": "ij,ik->jk"}, "", ""),
        ("FusedMatMul", [square, square], {"transBatchA": 1}, CONTRIB, "transposed batches have no kernel"),
        ("BatchNormalization", [square, row, row, row, row], training, "", "statistics as an output"),
        (
            "MaxPool",
            [square],
            {"kernel_shape": [2, 2], "storage_order": 1},
            "",
            "places counted by columns have no kernel",
        ),
        ("Resize", [square, region, factors], {"mode": "cubic"}, "", "mode=cubic has no kernel"),
        (
            "Resize",
            [square, region, factors],
            {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
            "",
            "places of tf_crop_and_resize have no kernel",
        ),
        ("OneHot", [x, np.array(3, F32), random((2,), 4)], {}, "", "indices of type fp32 have no kernel"),
    ]
    for op, arrays, attributes, domain, words in cases:
        settings = ort.SessionOptions()
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        names = [f"i{n}" for n in range(len(arrays))]
        outputs = ["Y", "places"] if op == "MaxPool" else ["Y", "m", "v"] if attributes == training else ["Y"]
        node = helper.make_node(op, names, outputs, name="it", domain=domain, **attributes)
        kinds = [int(helper.np_dtype_to_tensor_dtype(array.dtype)) for array in arrays]
        inputs = [value(n, a.shape, k) for n, a, k in zip(names, arrays, kinds, strict=True)]
        proto = model(graph([node], inputs, [helper.make_empty_tensor_value_info("Y")]))
        proto.opset_import.append(helper.make_opsetid(CONTRIB, 1))
        session = card_session(proto, settings=settings, claim="all")
        (told,) = tunableop.explain(session).operators
        assert told.claimed == (words == ""), told
        assert words in told.reason, told


def backbone() -> onnx.ModelProto:
    """As a network for images is exported: convolutions, norms that are not folded, pools, a classifier."""
    weights = {
        "w0": random((8, 3, 3, 3), 1) * F32(0.3),
        "w1": random((8, 8, 3, 3), 2) * F32(0.2),
        "head": random((8, 5), 3),
        "row": random((5,), 4),
    }
    for n in range(2):
        for name, low in (("s", 0.5), ("h", -0.5), ("m", -0.2), ("v", 0.5)):
            weights[f"{name}{n}"] = np.random.default_rng(n).uniform(low, low + 1, 8).astype(F32)
    nodes = [
        helper.make_node("Conv", ["X", "w0"], ["a0"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a0"], ["r0"]),
        helper.make_node("BatchNormalization", ["r0", "s0", "h0", "m0", "v0"], ["b0"]),
        helper.make_node("MaxPool", ["b0"], ["p0"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        helper.make_node("Conv", ["p0", "w1"], ["a1"], pads=[1] * 4),
        helper.make_node("InstanceNormalization", ["a1", "s1", "h1"], ["b1"]),
        helper.make_node("Add", ["b1", "p0"], ["c1"]),
        helper.make_node("AveragePool", ["c1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("GlobalAveragePool", ["p1"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "head", "row"], ["Y"]),
    ]
    return model(graph(nodes, [value("X", ["n", 3, "h", "w"])], [value("Y", ["n", 5])], weights), opset=17)


@on_card(*BOTH)
def test_a_network_for_images_stays_on_the_card() -> None:
    proto = backbone()
    session = card_session(proto, claim="all")
    stock = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for shape in ((2, 3, 32, 40), (1, 3, 17, 19)):
        feeds = {"X": random(shape, 7)}
        got, expected = session.run(None, feeds)[0], stock.run(None, feeds)[0]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert all(node.claimed for node in tunableop.explain(session).operators), tunableop.explain(session)
