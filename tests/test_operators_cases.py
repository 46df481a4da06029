"""Every operator of a card against ONNX Runtime's CPU provider: types, broadcasts, axes, layouts.

Each family is one model for each opset, in one process for each vendor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import numpy_helper
from support.cards import BOTH, on_card
from support.operators import CONTRIB, Case, Shapes, check, ints, some

Array = npt.NDArray[Any]
F32, F16, F64, I32, I64 = np.float32, np.float16, np.float64, np.int32, np.int64
FLOATS = (F32, F16, "bf16")


def case(op: str, inputs: list[Array | None], *, dtype: Any = None, **more: Any) -> Case:
    return Case(op, inputs, bf16=dtype == "bf16", **more)


def views() -> Iterator[Case]:
    x = some((2, 3, 4))
    for to, zero in (((6, 4), 0), ((0, -1), 0), ((2, 1, 3, 4), 0), ((-1,), 0), ((4, 3, 2), 1)):
        yield Case("Reshape", [x, ints(*to)], {"allowzero": zero})
        yield Case("Reshape", [x, ints(*to)], {"allowzero": zero}, constants=(1,))
    yield Case("Reshape", [some((0, 3)), ints(3, 0)], {"allowzero": 1})
    yield Case("Reshape", [some((1, 1), F16), ints()])
    for dtype in (F16, F64, I32, I64, np.uint8, np.int8, np.uint32, np.bool_):
        yield Case("Reshape", [some((4, 6), dtype), ints(3, 8)])
    for axis in (0, 1, 2, 3, -1, -2):
        yield Case("Flatten", [x], {"axis": axis})
    y = some((1, 3, 1, 2))
    for axes in ((0,), (2,), (0, 2), (-2,), (-4, 2)):
        yield Case("Squeeze", [y, ints(*axes)])
        yield Case("Squeeze", [y], {"axes": list(axes)}, opset=11)
    yield Case("Squeeze", [y])
    for axes in ((0,), (4,), (0, 3), (-1,), (-5, 2), (3, 1)):
        yield Case(
            "Unsqueeze",
            [some((3, 2, 4)) if len(axes) == 1 else x, ints(*axes)]
            if max(axes) < 4
            else [some((3, 2, 4, 1)), ints(*axes)],
        )
    yield Case("Unsqueeze", [x], {"axes": [0, 2]}, opset=11)
    yield Case("Identity", [x])
    yield Case("Identity", [some((3,), I64)])
    yield Case("Identity", [some((), F16)])
    for begin, end in ((0, None), (1, None), (-2, None), (0, -1), (1, 2), (2, 1), (-9, 9)):
        yield Case("Shape", [x], {"start": begin} | ({} if end is None else {"end": end}))
    yield Case("Shape", [some((2, 0, 3), F16)])
    yield Case("Shape", [x], opset=13)
    yield Case("Size", [x])
    yield Case("Size", [some((2, 0))])


BROADCASTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 8), (2, 3, 8)),
    ((2, 3, 8), (8,)),
    ((2, 3, 8), (3, 1)),
    ((2, 1, 8), (1, 3, 1)),
    ((), (2, 5)),
    ((7,), ()),
    ((3, 1, 5, 1, 2), (4, 1, 3, 1)),
    ((1, 1, 1, 4), (2, 3, 5, 4)),
    ((0, 3), (1, 3)),
    ((17,), (17,)),
    ((2, 4, 3, 5), (2, 1, 1, 5)),
]


def binary() -> Iterator[Case]:
    for op in ("Add", "Sub", "Mul", "Div"):
        for at, (left, right) in enumerate(BROADCASTS):
            for dtype in (*FLOATS, I64) if op == "Add" else (F32, F16) if at < 4 else (F32,):
                yield case(op, [some(left, dtype, 1), some(right, dtype, 2, 0.5, 3.0)], dtype=dtype)
        for dtype in ("bf16", F64, I32, I64):
            divisor = some((4, 6), dtype, 2, 1.0, 3.0)
            if dtype in (I32, I64):
                divisor = np.abs(divisor) + 1
            yield case(op, [some((4, 6), dtype, 1), divisor.astype(some((), dtype).dtype)], dtype=dtype)
        yield Case(op, [some((4, 6), F32, 1), some((6,), F32, 2, 1.0, 3.0)], opset=7)
        yield Case(op, [some((4, 6), F32, 1), some((1,), F32, 2, 1.0, 3.0)], constants=(1,), opset=13)
    for op in ("Max", "Min", "Sum"):
        for dtype in FLOATS if op == "Sum" else (*FLOATS, F64, I32, I64):
            yield case(op, [some((4, 1, 6), dtype, 1), some((5, 6), dtype, 2)], dtype=dtype)
        yield Case(op, [some((4, 6))])
    for op in ("Max", "Min", "Sum", "Mean"):
        for shapes in (
            ((3, 4), (3, 4), (3, 4)),
            ((4,), (3, 1), (2, 3, 4), (1,)),
            ((2, 1, 4), (3, 1), (1,), (5, 1, 1, 1), ()),
            ((), (), (0, 2)),
            ((17,),),
        ):
            for dtype in (F32,) if op == "Mean" else (F32, F64):
                yield Case(op, [some(shape, dtype, n) for n, shape in enumerate(shapes)])
        if op != "Mean":
            for dtype in (F16, "bf16"):
                yield case(op, [some((3, 8), dtype, n) for n in range(4)], dtype=dtype, loose=4.0)
    yield Case("Max", [some((3, 8), I64, n) for n in range(4)])
    nan = np.array([np.nan, 1, -np.inf, np.inf, 0.0], F32)
    for op in ("Max", "Min", "Add", "Mul"):
        yield Case(op, [nan, nan[::-1].copy()], note="special")
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        for dtype in (F32, F64, I32, I64):
            yield Case(op, [some((3, 4), dtype, 1), some((3, 4), dtype, 1)])
            yield Case(op, [some((2, 3, 4), dtype, 1), some((3, 1), dtype, 2)])
        yield Case(op, [some((2, 3, 4), F16, 1), some((3, 1), F16, 2)])
        yield Case(op, [some((32,), F32, 1), some((32,), F32, 2)])
    yield Case("Equal", [some((3, 4), np.bool_, 1), some((3, 4), np.bool_, 2)])
    for op in ("And", "Or", "Xor"):
        yield Case(op, [some((3, 1, 32), np.bool_, 1), some((2, 32), np.bool_, 2)])
        yield Case(op, [some((3,), np.bool_, 1), some((), np.bool_, 2)])
    for dtype in FLOATS:
        yield case("Pow", [some((3, 5), dtype, 1, 0.1, 2.0), some((5,), dtype, 2)], dtype=dtype, loose=4.0)
        for power in (2.0, 3.0, 0.5, -1.0):
            exponent = np.array(power, F32 if dtype == "bf16" else dtype)
            yield case("Pow", [some((3, 5), dtype, 1, 0.1, 2.0), exponent], dtype=dtype, constants=(1,))
    yield Case("Pow", [some((3, 5), I64), np.array(2, I64)])
    for dtype in (I32, I64):
        divisor = np.array([3, -3, 7, -2, 1], dtype)
        for fmod in (0, 1):
            yield Case("Mod", [some((4, 5), dtype), divisor], {"fmod": fmod})
    yield Case("Mod", [some((4, 5)), np.array([0.7, -0.7, 1.5, -2.0, 3.0], F32)], {"fmod": 1})
    yield Case("PRelu", [some((2, 3, 4)), some((3, 1), F32, 2)])


UNARY: dict[str, tuple[float, float, int]] = {  # where the input lies, and an opset
    "Abs": (-2, 2, 13),
    "Ceil": (-2, 2, 13),
    "Cos": (-4, 4, 17),
    "Erf": (-3, 3, 13),
    "Exp": (-3, 3, 13),
    "Floor": (-2, 2, 13),
    "HardSwish": (-5, 5, 14),
    "Log": (0.1, 9, 13),
    "Neg": (-2, 2, 13),
    "Reciprocal": (0.3, 3, 13),
    "Relu": (-2, 2, 14),
    "Round": (-2, 2, 17),
    "Sigmoid": (-5, 5, 13),
    "Sign": (-2, 2, 13),
    "Sin": (-4, 4, 17),
    "Softplus": (-5, 5, 17),
    "Sqrt": (0, 9, 13),
    "Tanh": (-3, 3, 13),
}


NO_BF16 = ("Cos", "HardSwish", "Round", "Sin", "Softplus")  # only from opset 22 on


def unary() -> Iterator[Case]:
    for op, (low, high, opset) in UNARY.items():
        for dtype in (F32, F16) if op in NO_BF16 else FLOATS:
            yield case(op, [some((3, 5, 7), dtype, 1, low, high)], dtype=dtype, opset=opset, loose=2.0)
        for shape in ((), (0, 2), (64,), (1031,)):
            yield Case(op, [some(shape, F32, 1, low, high)], opset=opset, loose=2.0)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], F32)
    for op in ("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Erf"):
        yield Case(op, [special], opset=UNARY[op][2], note="special")
    for op in ("Abs", "Neg", "Sign"):
        for dtype in (I32, I64):
            yield Case(op, [some((5, 7), dtype)], opset=13)
    yield Case("Not", [some((3, 37), np.bool_)])
    yield Case("IsNaN", [special])
    yield Case("IsInf", [special])
    for approximate in ("none", "tanh"):
        for dtype in FLOATS:
            yield case(
                "Gelu",
                [some((3, 40), dtype, 1, -4, 4)],
                dtype=dtype,
                opset=20,
                attributes={"approximate": approximate},
                loose=4.0,
            )
    for domain, op in ((CONTRIB, "Gelu"), (CONTRIB, "FastGelu"), (CONTRIB, "QuickGelu")):
        yield Case(op, [some((3, 40), F32, 1, -4, 4)], domain=domain, loose=4.0)
    yield Case("LeakyRelu", [some((3, 5))], {"alpha": 0.2}, opset=16)
    yield Case("LeakyRelu", [some((3, 5))], opset=16)
    yield Case("Elu", [some((3, 5))], {"alpha": 0.7}, opset=17)
    yield Case("HardSigmoid", [some((3, 5), F32, 1, -5, 5)], {"alpha": 0.3, "beta": 0.4}, opset=17)
    for dtype in FLOATS:
        limit = lambda value: np.array(value, F32 if dtype == "bf16" else dtype)  # noqa: B023, E731
        yield case("Clip", [some((3, 40), dtype), limit(-1), limit(0.5)], dtype=dtype)
        yield case("Clip", [some((3, 40), dtype), None, limit(0.5)], dtype=dtype)
        yield case("Clip", [some((3, 40), dtype), limit(-1)], dtype=dtype, constants=(1,))
    yield Case("Clip", [some((3, 40))])
    yield Case("Clip", [some((3, 40))], {"min": -0.5, "max": 1.0}, opset=6)
    yield Case("Clip", [some((3, 40), I64), np.array(-3, I64), np.array(5, I64)])


KINDS = {F32: 1, np.uint8: 2, I32: 6, I64: 7, np.bool_: 9, F16: 10, F64: 11}


def cast() -> Iterator[Case]:
    for (source, _), (_, to) in itertools.product(KINDS.items(), KINDS.items()):
        low = 0.0 if source == np.uint8 or to == 2 else -9.0
        values = some((5, 13), source, 1, low, 9.0)
        if to == 2 and np.dtype(source).kind == "i":
            values = np.abs(values)
        yield Case("Cast", [values], {"to": to}, note=f"to {to}")
    yield Case("Cast", [np.array([1e6, -1e6, 65504, 65520, np.inf, np.nan, 1e-8], F32)], {"to": 10})
    yield Case("Cast", [np.array([0.0, -0.0, np.nan, 0.1, 2.0], F32)], {"to": 9})
    yield Case("Cast", [np.array([1.5, -1.5, 2.9, -2.9], F16)], {"to": 7})
    yield Case("Cast", [some((0, 3))], {"to": 7})
    yield Case("CastLike", [some((3, 5)), some((1,), I64)])


def where() -> Iterator[Case]:
    for dtype in (F32, F16, I64, I32, np.uint8):
        yield Case("Where", [some((3, 5), np.bool_), some((3, 5), dtype, 1), some((3, 5), dtype, 2)])
    for shapes in (
        ((2, 1, 5), (3, 1), ()),
        ((5,), (2, 3, 5), (3, 5)),
        ((2, 1), (), (1, 64)),
        ((0, 3), (3,), ()),
    ):
        condition, x, y = shapes
        yield Case("Where", [some(condition, np.bool_), some(x, F32, 1), some(y, F32, 2)])
    yield case("Where", [some((3, 64), np.bool_), some((64,), "bf16", 1), some((), "bf16", 2)], dtype="bf16")


def softmax() -> Iterator[Case]:
    for op in ("Softmax", "LogSoftmax"):
        for shape, axis in (
            ((2, 3, 8), -1),
            ((2, 3, 8), 0),
            ((2, 3, 8), 1),
            ((4, 257), 1),
            ((2, 1), 1),
            ((3, 2050), -1),
            ((0, 4), 1),
            ((7,), 0),
        ):
            yield Case(op, [some(shape, F32, 1, -6, 6)], {"axis": axis}, opset=13, loose=4.0)
        for dtype in FLOATS:
            yield case(op, [some((3, 5, 40), dtype, 1, -6, 6)], dtype=dtype, opset=13, loose=4.0)
        yield Case(op, [some((2, 3, 8), F32, 1, -6, 6)], {"axis": 1}, opset=11, loose=4.0)
        yield Case(op, [some((2, 3, 8), F32, 1, -6, 6)], opset=11, loose=4.0)
    masked = some((2, 3, 8))
    masked[0, 1, 3:] = -np.inf
    yield Case("Softmax", [masked], opset=13, loose=4.0, note="masked")
    yield Case("Softmax", [some((2, 3, 8)) * 1e4], opset=13, loose=4.0, note="large")


def norm() -> Iterator[Case]:
    for shape in ((2, 3, 8), (5, 768), (3, 33), (1, 1), (2, 4, 2049)):
        width = shape[-1]
        for dtype in FLOATS:
            x, scale, bias = some(shape, dtype, 1), some((width,), dtype, 2), some((width,), dtype, 3)
            yield case("LayerNormalization", [x, scale, bias], dtype=dtype, loose=8.0)
        yield Case("LayerNormalization", [some(shape), some((width,), F32, 2)], {"epsilon": 1e-3}, loose=8.0)
    yield Case(
        "LayerNormalization",
        [some((2, 3, 4, 5)), some((4, 5), F32, 2), some((4, 5), F32, 3)],
        {"axis": 2},
        loose=8.0,
    )
    yield Case(
        "LayerNormalization", [some((2, 3, 8)), some((8,), F32, 2), some((8,), F32, 3)], outputs=3, loose=8.0
    )
    for shape in ((2, 3, 8), (2, 5, 768)):
        width = shape[-1]
        for dtype in (F32, F16):
            x, skip, gamma, beta, bias = (
                some(shape, dtype, 1),
                some(shape, dtype, 2),
                *(some((width,), dtype, n) for n in (3, 4, 5)),
            )
            norm = {"epsilon": 1e-5}
            yield Case(
                "SkipLayerNormalization", [x, skip, gamma, beta, bias], norm, domain=CONTRIB, loose=8.0
            )
            yield Case("SkipLayerNormalization", [x, skip, gamma, beta], norm, domain=CONTRIB, loose=8.0)
            yield Case("SkipLayerNormalization", [x, skip, gamma], norm, domain=CONTRIB, loose=8.0)
            yield Case("SkipSimplifiedLayerNormalization", [x, skip, gamma], norm, domain=CONTRIB, loose=8.0)
            yield Case("SimplifiedLayerNormalization", [x, gamma], {"axis": -1} | norm, loose=8.0)


def reduce() -> Iterator[Case]:
    x = some((3, 4, 5, 6))
    for op in (
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSumSquare",
        "ReduceL2",
        "ReduceL1",
    ):
        opset = 13 if op == "ReduceSum" else 18
        for axes in ((-1,), (0,), (1,), (1, 3), (0, 1), (2, 3), (0, 1, 2, 3)):
            yield Case(op, [x, ints(*axes)], opset=opset, loose=16.0)
            yield Case(op, [x, ints(*axes)], {"keepdims": 0}, opset=opset, constants=(1,), loose=16.0)
        yield Case(op, [x], opset=opset, loose=16.0)
        yield Case(op, [some((2, 3000), F32, 1, 0.9, 1.0), ints(1)], opset=opset, loose=60.0)
        yield Case(op, [some((300, 3), F32, 1, 0.9, 1.0), ints(0)], opset=opset, loose=60.0)
        yield Case(op, [some((3, 40), F16, 1, 0.7, 1.2), ints(1)], opset=opset, loose=4.0)
        if op != "ReduceSum":
            yield Case(op, [x], {"axes": [1, -1]}, opset=13 if op != "ReduceL2" else 11, loose=16.0)
    yield Case("ReduceSum", [x], {"axes": [1]}, opset=11, loose=16.0)
    yield Case("ReduceSum", [x], {"noop_with_empty_axes": 1}, opset=13)
    for op in ("ReduceSum", "ReduceMax", "ReduceMin"):
        for dtype in (I32, I64):
            yield Case(op, [some((3, 4, 5), dtype), ints(1)], opset=13 if op == "ReduceSum" else 18)
    for op in ("ArgMax", "ArgMin"):
        for axis, keep in ((0, 1), (-1, 0), (1, 1)):
            yield Case(op, [some((3, 4, 50))], {"axis": axis, "keepdims": keep}, opset=13)
        yield Case(op, [np.ones((2, 5), F32)], {"axis": 1}, opset=13, note="equal")


def transpose() -> Iterator[Case]:
    for order in itertools.permutations(range(3)):
        yield Case("Transpose", [some((3, 4, 5))], {"perm": list(order)})
    for order in ((0, 2, 1, 3), (0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 3, 2)):
        for dtype in (F32, F16, I64, np.uint8):
            yield Case("Transpose", [some((2, 9, 4, 16), dtype)], {"perm": list(order)})
    yield Case("Transpose", [some((33, 70))])
    yield Case("Transpose", [some((5,))])
    yield Case("Transpose", [some(())])
    yield Case("Transpose", [some((0, 3))])
    yield Case("Transpose", [some((2, 1, 3, 1, 2, 2))], {"perm": [5, 1, 0, 4, 3, 2]})


def move() -> Iterator[Case]:
    for dtype in (F32, F16, I64, np.bool_, np.int8):
        yield Case("Concat", [some((2, 3, 4), dtype, 1), some((2, 5, 4), dtype, 2)], {"axis": 1})
    for axis in (0, 1, 2, -1):
        shapes = [tuple(n if d == axis % 3 else 3 for d in range(3)) for n in (1, 4, 2, 3, 5)]
        yield Case("Concat", [some(shape, F32, n) for n, shape in enumerate(shapes)], {"axis": axis})
    yield Case("Concat", [some((2, 3))], {"axis": 0})
    yield Case("Concat", [some((2, 0), F32, 1), some((2, 3), F32, 2)], {"axis": 1})
    yield Case("Concat", [some((2, n), F32, n) for n in range(1, 20)], {"axis": 1})
    for axis, sizes in ((1, (1, 3, 2)), (0, (2, 2)), (-1, (4, 4))):
        shape = [4, 6, 8]
        shape[axis] = sum(sizes)
        yield Case("Split", [some(tuple(shape)), ints(*sizes)], {"axis": axis}, outputs=len(sizes))
        yield Case(
            "Split", [some(tuple(shape))], {"axis": axis, "split": list(sizes)}, outputs=len(sizes), opset=11
        )
    yield Case("Split", [some((2, 9), F16)], {"axis": 1}, outputs=3, opset=13)
    yield Case("Split", [some((2, 10), I64)], {"axis": 1, "num_outputs": 4}, outputs=4, opset=18)
    x = some((4, 5, 6))
    for starts, ends, axes, steps in (
        ((1,), (3,), (0,), None),
        ((0, 1), (4, -1), (0, 2), None),
        ((-3,), (99,), (1,), (1,)),
        ((4,), (-99,), (1,), (-1,)),
        ((5, 0), (0, 5), (2, 1), (-2, 2)),
        ((2,), (1,), (0,), None),
    ):
        yield Case("Slice", [x, ints(*starts), ints(*ends), ints(*axes), *([ints(*steps)] if steps else [])])
    yield Case("Slice", [x, ints(1, 2, 0), ints(3, 4, 5)])
    yield Case("Slice", [some((4, 6), F16), ints(1), ints(3), ints(1)])
    yield Case("Slice", [x, np.array([1], I32), np.array([3], I32), np.array([1], I32)])
    yield Case("Slice", [x], {"starts": [1], "ends": [3], "axes": [1]}, opset=9)
    for shape, to in (
        ((3, 1), (2, 3, 4)),
        ((), (2, 2)),
        ((2, 3), (1, 3)),
        ((1, 5), (4, 1)),
        ((1,), (0, 3)),
        ((2, 1, 8), (2, 6, 8)),
    ):
        yield Case("Expand", [some(shape), ints(*to)])
    yield Case("Expand", [some((3, 1), np.bool_), ints(3, 5)])
    for shape, repeats in (
        ((2, 3), (2, 2)),
        ((3,), (4,)),
        ((2, 1, 3), (1, 5, 2)),
        ((2, 3), (1, 0)),
        ((2, 2), (1, 1)),
    ):
        yield Case("Tile", [some(shape), ints(*repeats)], opset=13)
    y = some((2, 3, 4))
    for mode in ("constant", "edge", "reflect"):
        for pads in ((0, 1, 2, 0, 0, 1), (1, 0, 0, 0, 2, 3)):
            if mode == "reflect" and max(pads) > 2:
                pads = (1, 0, 0, 0, 2, 2)
            yield Case("Pad", [y, ints(*pads)], {"mode": mode}, opset=13)
    yield Case("Pad", [y, ints(0, 1, 2, 0, 0, 1), np.array(7.5, F32)], opset=13)
    yield Case("Pad", [y, ints(0, -1, 1, 0, 0, -1)], opset=13)
    yield Case("Pad", [y, ints(1, 1), np.array(2, F32), ints(1)], opset=18)
    yield Case("Pad", [some((2, 3), I64), ints(0, 1, 1, 0)], opset=13)


def gather() -> Iterator[Case]:
    x = some((5, 4, 6))
    for axis in (0, 1, 2, -1):
        yield Case("Gather", [x, ints(3, 0, -1, 2)], {"axis": axis})
    yield Case("Gather", [x, np.array([[0, 1], [-2, 3]], I32)], {"axis": 1})
    yield Case("Gather", [x, np.array(2, I64)], {"axis": 0})
    yield Case("Gather", [x, np.zeros((0,), I64)])
    for dtype in (F16, I64, I32, np.bool_):
        yield Case("Gather", [some((9, 16), dtype), ints(8, 1, 1)])
    yield Case("Gather", [some((50, 33)), np.arange(24).reshape(2, 12).astype(I64)])
    for axis in (0, 1, -1):
        yield Case(
            "GatherElements", [some((3, 4)), np.array([[0, 1, -1, 2], [2, 2, 0, 1]], I64)], {"axis": axis}
        )
    yield Case("GatherElements", [some((3, 4), F16), np.array([[0, 1], [-1, 2]], I32)], {"axis": 1})
    yield Case("GatherND", [some((3, 4, 5)), np.array([[0, 1], [2, -1]], I64)])
    yield Case("GatherND", [some((2, 4, 5)), np.array([[[1], [0]], [[3], [-1]]], I64)], {"batch_dims": 1})
    for axis, exclusive, reverse in itertools.product((0, 1, -1), (0, 1), (0, 1)):
        attributes = {"exclusive": exclusive, "reverse": reverse}
        yield Case("CumSum", [some((3, 40), F32, 1, 0.5, 1), np.array(axis, I64)], attributes, loose=32.0)
    for dtype in (I32, I64):
        yield Case("CumSum", [some((3, 4, 5), dtype), np.array(1, I32)])


def make() -> Iterator[Case]:
    for dtype in (F32, F64, I32, I64):
        for start, limit, delta in ((0, 9, 1), (3, -8, -2), (5, 5, 1), (5, 2, 1), (-3, 700, 7)):
            yield Case("Range", [np.array(n, dtype) for n in (start, limit, delta)])
    yield Case("Range", [np.array(n, F32) for n in (0.5, 3.1, 0.25)], constants=(0, 2))
    for dtype in (F32, F16, F64, I32, I64, np.uint8, np.bool_, np.int8):
        value = numpy_helper.from_array(np.array([3 if dtype != np.bool_ else True], dtype))
        yield Case("ConstantOfShape", [ints(2, 3)], {"value": value})
    yield Case("ConstantOfShape", [ints(4)])
    yield Case("ConstantOfShape", [ints()])
    yield Case("ConstantOfShape", [ints(3, 0)])
    for dtype in (F32, F16, F64, I64, np.bool_):
        for k in (None, 0, 1, -2, 100, -100):
            for upper in (0, 1):
                diagonal = [] if k is None else [np.array(k, I64)]
                yield Case("Trilu", [some((2, 5, 7), dtype), *diagonal], {"upper": upper})
    for shape in ((3, 3), (1, 9), (9, 1), (2, 0), (2, 3, 4, 4)):
        yield Case("Trilu", [some(shape), np.array(1, I64)])
        yield Case("Trilu", [some(shape)], {"upper": 0}, domain=CONTRIB)


def scatter() -> Iterator[Case]:
    for dtype in (F32, F16, I64, I32, np.bool_):
        x = some((4, 5), dtype)
        for axis, indices in ((0, [[3, 0, -3, 2, 1]]), (1, [[4, 0], [-2, 1], [3, 2]])):
            updates = some(np.shape(indices), dtype, 2)
            for kind in (I32, I64):
                yield Case("ScatterElements", [x, np.array(indices, kind), updates], {"axis": axis})
        yield Case("ScatterND", [x, ints(3, 0, -2).reshape(3, 1), some((3, 5), dtype, 2)])
        yield Case("ScatterND", [x, ints(3, 0, -2, 1).reshape(2, 2), some((2,), dtype, 2)])
    y = some((2, 3, 4, 5))
    places = ints(0, 1, 1, 2).reshape(2, 1, 2)
    yield Case("ScatterND", [y, places, some((2, 1, 4, 5), F32, 2)])
    yield Case("ScatterND", [y, np.zeros((0, 2), I64), some((0, 4, 5), F32, 2)])
    yield Case("ScatterElements", [y, np.zeros((2, 0, 4, 5), I64), some((2, 0, 4, 5))], {"axis": 1})


def conv() -> Iterator[Case]:
    images: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((2, 3, 8, 8), (5, 3, 1, 1), {}),
        ((1, 4, 5, 7), (6, 4, 1, 1), {"strides": [2, 3]}),
        ((3, 3, 8, 12), (16, 3, 4, 4), {"strides": [4, 4]}),  # patches
        ((2, 3, 9, 7), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 3, 9, 7), (4, 3, 3, 2), {"pads": [0, 1, 2, 0], "strides": [2, 1], "dilations": [2, 3]}),
        ((1, 2, 10, 11), (3, 2, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
        ((1, 2, 10, 11), (3, 2, 3, 4), {"auto_pad": "SAME_LOWER"}),
        ((1, 2, 10, 11), (3, 2, 3, 4), {"auto_pad": "VALID"}),
        ((2, 5, 20), (8, 5, 3), {"pads": [1, 1]}),
        ((2, 5, 21), (8, 5, 3), {"pads": [1, 1], "strides": [2]}),
        ((1, 5, 20), (8, 5, 1), {}),
        ((2, 6, 9, 7), (4, 3, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
        ((2, 6, 9), (6, 1, 3), {"group": 6, "pads": [1, 1]}),
        ((2, 6, 5, 5), (9, 2, 1, 1), {"group": 3}),
        ((0, 3, 8, 8), (5, 3, 3, 3), {}),
    ]
    for x, w, attributes in images:
        for dtype in (F32, F16):
            scale = np.asarray(np.sqrt(3.0 / np.prod(w[1:])), dtype)
            inputs = [some(x, dtype, 1), some(w, dtype, 2) * scale, some(w[:1], dtype, 3)]
            yield Case("Conv", inputs, attributes, opset=11, loose=8.0)
            yield Case("Conv", inputs[:2], attributes, opset=22, constants=(1,), loose=8.0)
    yield case("Conv", [some((2, 3, 8), "bf16", 1), some((4, 3, 3), "bf16", 2)], dtype="bf16", opset=22)


def rotary() -> Iterator[Case]:
    angles = np.random.default_rng(3).uniform(-3, 3, (20, 4))
    for dtype in (F32, F16):
        cosines, sines = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
        flat, split = some((2, 5, 24), dtype), some((2, 3, 5, 8), dtype)
        wide = some((2, 5, 36), dtype)  # heads of 12, of which 8 turn
        each = np.array([[0, 1, 2, 3, 4], [9, 3, 19, 0, 7]], I64)
        for interleaved in (0, 1):
            turning: dict[str, Any] = {"interleaved": interleaved}
            for x, positions, more in (
                (flat, each, {}),
                (flat, ints(4), {}),
                (flat, each, {"num_heads": 3}),
                (split, each, {}),
                (split, ints(11), {}),
                (wide, each, {"num_heads": 3, "rotary_embedding_dim": 8}),
            ):
                inputs: list[Array | None] = [x, positions, cosines, sines]
                yield Case("RotaryEmbedding", inputs, turning | more, domain=CONTRIB, constants=(2, 3))
            for x, more in (
                (flat, {"num_heads": 3}),
                (split, {}),
                (wide, {"num_heads": 3, "rotary_embedding_dim": 8}),
            ):
                inputs = [x, cosines, sines, each]
                yield Case("RotaryEmbedding", inputs, turning | more, opset=23, constants=(1, 2))
                inputs = [x, cosines[each], sines[each]]
                yield Case("RotaryEmbedding", inputs, turning | more, opset=23)


def attention() -> Iterator[Case]:
    """Queries of 2 batches, 3 heads (or 6 that share them), 5 tokens; 7 keys; heads of 8 numbers."""
    b, s, t, h, d = 2, 5, 7, 3, 8
    for dtype in FLOATS:
        q, k, v = some((b, h, s, d), dtype, 1), some((b, h, t, d), dtype, 2), some((b, h, t, d), dtype, 3)
        more: dict[str, Any] = {"dtype": dtype, "opset": 23, "loose": 4.0}
        yield case("Attention", [q, k, v], **more)
        yield case("Attention", [q, k, v], attributes={"scale": 0.2, "is_causal": 1}, **more)
        yield case("Attention", [some((b, 2 * h, s, d), dtype, 4), k, v], **more)
        flat: list[Array | None] = [
            some((b, s, 2 * h * d), dtype, 1),
            some((b, t, h * d), dtype, 2),
            some((b, t, h * d), dtype, 3),
        ]
        heads = {"q_num_heads": 2 * h, "kv_num_heads": h}
        yield case("Attention", flat, attributes=heads, **more)
        for shape in ((s, t), (1, s, t), (b, 1, s, t), (b, h, s, t)):
            yield case("Attention", [q, k, v, some(shape, dtype, 5)], **more)
        seen = np.ones((b, 1, s, t), np.bool_)
        seen[1, :, :, 4:] = False
        yield case("Attention", [q, k, v, seen], **more)
        yield case("Attention", [q, k, v, seen[1, 0]], **more)
        past: list[Array | None] = [some((b, h, 4, d), dtype, 6), some((b, h, 4, d), dtype, 7)]
        fresh: list[Array | None] = [q, k[:, :, :s].copy(), v[:, :, :s].copy()]
        yield case("Attention", [*fresh, None, *past], outputs=3, **more)
        yield case("Attention", [*fresh, some((s, s + 4), dtype, 5), *past], outputs=3, **more)
        yield case("Attention", fresh, outputs=3, **more)
    wide: list[Array | None] = [some((1, 2, 9, 64), F16, n) for n in range(3)]
    yield Case("Attention", wide, {"is_causal": 1}, opset=23, loose=4.0)
    long: list[Array | None] = [some((1, 1, n, 32), F32, n) for n in (1, 700, 700)]
    yield Case("Attention", long, opset=23, loose=4.0)


def multi_head() -> Iterator[Case]:
    b, s, t, h, d = 2, 5, 7, 3, 8
    for dtype in (F32, F16):
        q, k, v = some((b, s, h * d), dtype, 1), some((b, t, h * d), dtype, 2), some((b, t, h * d), dtype, 3)
        k0, v0 = some((b, s, h * d), dtype, 2), some((b, s, h * d), dtype, 3)
        past_k, past_v = some((b, h, 4, d), dtype, 10), some((b, h, 4, d), dtype, 11)
        bias = some((3 * h * d,), dtype, 4)
        there = np.array([[1] * t, [1] * 4 + [0] * (t - 4)], I32)
        further = np.array([[1] * 9, [0] * 3 + [1] * 6], I32)
        every: list[tuple[list[Array | None], dict[str, Any], int]] = [
            ([q, k, v], {}, 1),
            ([q, k, v], {"scale": 0.3}, 1),
            ([q, k, v, bias], {}, 1),
            ([q, some((b, h, t, d), dtype, 5), some((b, h, t, d), dtype, 6)], {}, 1),
            ([q, k, v, None, there], {}, 1),
            ([q, k0, v0], {"unidirectional": 1}, 1),
            ([q, k0, v0], {}, 3),
            ([q, k0, v0, None, None, None, past_k, past_v], {}, 3),
            ([q, k0, v0, None, further, None, past_k, past_v], {}, 3),
            (
                [q, k0, v0, bias, None, some((1, 1, s, s + 4), dtype, 12), past_k, past_v],
                {"unidirectional": 1},
                3,
            ),
        ]
        for shape in ((1, 1, s, t), (b, 1, s, t), (1, h, s, t), (b, h, s, t)):
            every.append(([q, k, v, None, None, some(shape, dtype, 9)], {}, 1))
        for inputs, attributes, outputs in every:
            yield Case(
                "MultiHeadAttention",
                inputs,
                {"num_heads": h} | attributes,
                domain=CONTRIB,
                outputs=outputs,
                loose=4.0,
            )


def grouped() -> Iterator[Case]:
    h, kv, d = 6, 2, 16
    angles = np.random.default_rng(3).uniform(-3, 3, (20, d // 2))
    for dtype, rotary in itertools.product((F32, F16), (0, 1, 2)):
        attributes: dict[str, Any] = {"num_heads": h, "kv_num_heads": kv}
        tables: list[Array | None] = []
        if rotary:
            attributes |= {"do_rotary": 1, "rotary_interleaved": rotary - 1}
            tables = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
        # tokens, room for the past, tokens of each batch with these
        for s, room, lengths in (
            (5, 0, (5, 5)),
            (5, 0, (5, 3)),
            (5, 12, (5, 4)),
            (1, 7, (8, 8)),
            (1, 7, (8, 5)),
            (1, 12, (9, 4)),
            (3, 12, (9,)),
        ):
            b = len(lengths)
            q, k, v = (some((b, s, n * d), dtype, i) for i, n in enumerate((h, kv, kv)))
            past: list[Array | None] = [None, None]
            if room:
                before = [some((b, kv, room, d), dtype, 7 + i) for i in range(2)]
                for one, (at, length) in itertools.product(before, enumerate(lengths)):
                    one[at, :, max(length - s, 0) :] = 0  # not there yet
                past = [*before]
            rest = [*past, np.array(lengths, I32) - 1, np.array(max(lengths), I32), *tables]
            scale: dict[str, Any] = {"scale": 0.3} if s == 3 else {}
            if room == 7 or lengths == (5, 3):
                scale["softcap"] = 0.8
            sinks = some((h,), dtype, 9)
            if s == 1 and lengths != (8, 8):
                rest = [*rest, *[None] * (8 - len(rest)), sinks]
            elif not room:
                scale["smooth_softmax"] = 1
            if room > 7:
                scale["local_window_size"] = 4
            for inputs in ([q, k, v], [np.concatenate([q, k, v], axis=2), None, None]):
                yield Case(
                    "GroupQueryAttention",
                    [*inputs, *rest],
                    attributes | scale,
                    domain=CONTRIB,
                    outputs=3,
                    loose=4.0,
                )


def optimized() -> Iterator[Case]:
    """What ONNX Runtime's own optimizer of transformers makes of encoders."""
    b, s, h, d = 2, 5, 3, 8
    width = h * d
    table = [some((n, width), F32, i) for i, n in enumerate((20, 9, 2))]
    for dtype in (F32, F16):
        x, row = some((3, 5, 40), dtype, 1, -4, 4), some((40,), dtype, 2)
        yield Case("BiasGelu", [x, row], domain=CONTRIB, loose=4.0)
        yield Case("FastGelu", [x, row], domain=CONTRIB, loose=4.0)
        yield Case("FastGelu", [some((3, 7), dtype, 1)], domain=CONTRIB, loose=4.0)
        inputs: list[Array | None] = [
            some((b, s, 16), dtype, 1),
            some((16, 3 * width), dtype, 2, -0.4, 0.4),
            some((3 * width,), dtype, 3),
        ]
        lengths, there = np.array([5, 3], I32), np.array([[1, 1, 1, 1, 1], [0, 1, 1, 1, 0]], I32)
        for more, attributes in (
            ([], {}),
            ([], {"unidirectional": 1}),
            ([], {"scale": 0.2}),
            ([lengths], {}),
            ([there], {}),
            ([None, None, some((1, h, s, s), dtype, 4)], {}),
            ([None, None, some((b, 1, s, s), dtype, 5)], {"unidirectional": 1}),
        ):
            for constants in ((), (1, 2)):
                yield Case(
                    "Attention",
                    [*inputs, *more],
                    {"num_heads": h} | attributes,
                    domain=CONTRIB,
                    constants=constants,
                    loose=8.0,
                )
        words, places, kinds = (one.astype(dtype) for one in table)
        gamma, beta = some((width,), dtype, 6), some((width,), dtype, 7)
        ids = np.random.default_rng(1).integers(0, 20, (b, s)).astype(I32)
        segments = np.random.default_rng(2).integers(0, 2, (b, s)).astype(I32)
        mask = np.array([[1] * s, [1, 1, 0, 0, 0]], I32)
        positions = np.array([[3, 1, 4, 1, 5]], I32)
        for given, outputs in (
            ([ids, segments, words, places, kinds, gamma, beta], 2),
            ([ids, segments, words, places, kinds, gamma, beta, mask], 2),
            ([ids, None, words, places, None, gamma, beta, mask], 3),
            ([ids, segments, words, places, kinds, gamma, beta, None, positions], 3),
        ):
            yield Case(
                "EmbedLayerNormalization",
                given,
                {"epsilon": 1e-5},
                domain=CONTRIB,
                constants=(2, 3, 4, 5, 6),
                outputs=outputs,
                loose=8.0,
            )


def odd_norm() -> Iterator[Case]:
    """Scales and shifts that are no row of what is normalised."""
    x = some((2, 3, 4, 5))
    for axis, shape in (
        (-1, (4, 1)),
        (-1, (2, 3, 4, 5)),
        (1, (4, 5)),
        (2, (3, 1, 5)),
        (1, ()),
        (-1, (1, 1, 5)),
    ):
        for dtype in (F32, F16):
            scale, shift = some(shape, dtype, 2), some(shape, dtype, 3)
            given = x.astype(dtype)
            yield Case("LayerNormalization", [given, scale, shift], {"axis": axis}, loose=8.0)
            yield Case("LayerNormalization", [given, scale], {"axis": axis}, loose=8.0, constants=(1,))
            yield Case("SimplifiedLayerNormalization", [given, scale], {"axis": axis}, loose=8.0)
        yield Case("RMSNormalization", [x, some(shape, F32, 2)], {"axis": axis}, opset=23, loose=8.0)
    # As many elements as a row, along another dimension.
    square = some((3, 3, 3), F32, 1)
    yield Case("LayerNormalization", [square, some((3, 1), F32, 2)], {"axis": -1}, loose=8.0)


def odd_moves() -> Iterator[Case]:
    for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceMean", "ReduceProd"):
        for given in ([], [ints()]):
            keeps = {"noop_with_empty_axes": 1, "keepdims": 0}
            yield Case(op, [some((3, 1, 5)), *given], keeps, opset=18, loose=4.0)
    for mode in ("constant", "edge", "reflect", "wrap"):
        for pads in ((-1, 2), (2, -1), (-2, 0), (3, -3)):
            if mode == "reflect" and pads == (3, -3):
                continue  # more than there is to reflect
            yield Case("Pad", [some((7,)), ints(*pads)], {"mode": mode}, opset=19)
            yield Case("Pad", [some((7, 2)), ints(pads[0], 1, pads[1], 0)], {"mode": mode}, opset=19)
    for rank in (5, 6, 8):
        for dtype in (F32, F16, np.bool_):
            yield Case("Tile", [some((2,) * rank, dtype), ints(*[2, 3, 1, 2, 2, 1, 2, 2][:rank])])


def masks() -> Iterator[Case]:
    """What MultiHeadAttention and Attention of com.microsoft take for masks, and where its diagonal lies."""
    b, s, h, d = 2, 4, 3, 8
    for dtype in (F32, F16):
        for queries, fresh, kept in (
            (4, 4, 0),
            (3, 5, 0),
            (5, 3, 0),
            (1, 4, 0),
            (3, 3, 2),
            (2, 4, 3),
            (4, 2, 3),
        ):
            q, k, v = (some((b, n, h * d), dtype, n + i) for i, n in enumerate((queries, fresh, fresh)))
            past: list[Array | None] = [some((b, h, kept, d), dtype, 9 + i) for i in range(2)] if kept else []
            keys = fresh + kept
            added = some((1, h, queries, keys), dtype, 8)
            seen = np.ones((b, keys), I32)
            seen[1, 1:3] = 0
            lengths = np.array([keys, 2], I32)
            starts = np.array([0, 3, keys + 3, 0, queries, 2 * queries, 0, fresh, 2 * fresh], I32)[:-1]
            starts[:2] = lengths
            each = np.ones((b, queries, keys), I32)
            each[0, 0, 1:] = each[1, -1, :1] = 0
            for causal, mask, bias in itertools.product(
                (0, 1), (None, lengths, starts, seen, each), (None, added)
            ):
                if dtype == F16 and (kept or bias is None):
                    continue  # the same, in half as many cases
                inputs = [q, k, v, None, mask, bias, *past]
                while inputs[-1] is None:
                    inputs.pop()
                yield Case(
                    "MultiHeadAttention",
                    inputs,
                    {"num_heads": h, "unidirectional": causal},
                    domain=CONTRIB,
                    outputs=3 if kept else 1,
                    loose=4.0,
                )
        x, weight = some((b, s, 16), dtype, 1), some((16, 3 * h * d), dtype, 2, -0.4, 0.4)
        row = some((3 * h * d,), dtype, 3)
        seen = np.array([[1, 1, 0, 1], [1, 0, 0, 1]], I32)
        each = np.array([[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1]]] * b, I32)
        for mask in (
            np.array([4, 2], I32),
            np.array([4, 3, 1, 0], I32),
            np.array([4, 2, 0, 4, 8, 0, 4, 6], I32),
            seen,
            np.zeros((b, s), I32),
            np.ones((b, 1), I32),
            np.zeros((1, 1), I32),
            each,
        ):
            for bias in (None, some((1, h, s, s), dtype, 4), some((b, 1, s, s), dtype, 5)):
                if not mask.any() and bias is not None and dtype == F16:
                    continue  # -10000 and a bias are one number, of which fp16 leaves no bias
                inputs = [x, weight, row, mask, None, bias]
                yield Case(
                    "Attention",
                    inputs[: 4 if bias is None else 6],
                    {"num_heads": h},
                    domain=CONTRIB,
                    # Where no key counts, ONNX Runtime's scores are around -10000, and rounded there.
                    loose=500.0 if not mask.any() else 8.0,
                )
    yield Case(
        "Attention", [x, weight, row, np.zeros((b,), I32)], {"num_heads": h}, domain=CONTRIB, loose=500.0
    )


def values_of_another_size() -> Iterator[Case]:
    b, s, t, h, d = 2, 3, 5, 2, 8
    for dtype, size in itertools.product(FLOATS, (4, 6, 12, 64)):
        q, k, v = (
            some((b, 2 * h, s, d), dtype, 1),
            some((b, h, t, d), dtype, 2),
            some((b, h, t, size), dtype, 3),
        )
        more: dict[str, Any] = {"dtype": dtype, "opset": 23, "loose": 4.0}
        yield case("Attention", [q, k, v], **more)
        yield case("Attention", [q, k, v], attributes={"is_causal": 1}, outputs=3, **more)
        flat = [np.ascontiguousarray(a.transpose(0, 2, 1, 3)).reshape(b, a.shape[2], -1) for a in (q, k, v)]
        heads = {"q_num_heads": 2 * h, "kv_num_heads": h}
        past: list[Array | None] = [some((b, h, 4, d), dtype, 6), some((b, h, 4, size), dtype, 7)]
        yield case("Attention", [*flat, None, *past], attributes=heads, outputs=3, **more)
        if dtype == "bf16":
            continue
        wide = some((b, s, h * d), dtype, 1)
        for bias in (None, some((2 * h * d + h * size,), dtype, 5)):
            inputs = [wide, flat[1], flat[2], bias]
            yield Case("MultiHeadAttention", inputs, {"num_heads": h}, domain=CONTRIB, loose=4.0)
    long: list[Array | None] = [some((1, 1, n, size), F32, n) for n, size in ((1, 32), (700, 32), (700, 40))]
    yield Case("Attention", long, opset=23, loose=4.0)


EVERY = (
    views,
    binary,
    unary,
    cast,
    where,
    softmax,
    norm,
    reduce,
    transpose,
    move,
    gather,
    make,
    scatter,
    conv,
    rotary,
    attention,
    multi_head,
    grouped,
    optimized,
    odd_norm,
    odd_moves,
    masks,
    values_of_another_size,
)
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
    if family == "conv" and shapes == "unknown":  # how many dimensions there are has to be known
        cases = [case for case in cases if not case.bf16]  # which the CPU does not have
        assert 0 < check(cases, shapes).total() < len(cases)
    else:
        assert check(cases, shapes).total() == len(cases)
