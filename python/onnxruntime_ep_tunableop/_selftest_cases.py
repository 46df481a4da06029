"""What the self-test runs through sessions: small models, and what is right for each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _onnx

Array = npt.NDArray[Any]
Wide = npt.NDArray[np.float64]

_UNIT = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
_SMALLEST = {"fp32": 2.0**-126, "fp16": 2.0**-24, "bf16": 2.0**-126}
_ROUNDING = {"exact": 0.0, "tf32": 2.0**-10, "bf16": 2.0**-8}


@dataclass(frozen=True)
class Case:
    """One MatMul or Gemm. `a` and `b` are dimensions as stored; `c` those of Gemm's third input."""

    op: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    c: tuple[int, ...] | None = None
    trans_a: bool = False
    trans_b: bool = False
    alpha: float = 1.0
    beta: float = 1.0
    constant: bool = True  #: B (and C) are weights
    dtype: str = "fp32"
    precision: str = "exact"
    relu: bool = False

    @property
    def kind(self) -> str:
        """The column of the table: "fp16", "fp32 as tf32"."""
        return self.dtype if self.precision == "exact" else f"{self.dtype} as {self.precision}"

    def __str__(self) -> str:
        """For example "Gemm 5x7 * 7x9 + 9, transB, fp16"."""
        text = f"{self.op} {_size(self.a)} * {_size(self.b)}"
        if self.c is not None:
            text += f" + {_size(self.c)}"
        words = [self.kind]
        words += ["transA"] * self.trans_a + ["transB"] * self.trans_b
        words += [f"alpha={self.alpha:g}"] if self.alpha != 1.0 else []
        words += [f"beta={self.beta:g}"] if self.beta != 1.0 else []
        words += ["B computed"] if not self.constant else []
        words += ["relu"] * self.relu
        return f"{text}, {', '.join(words)}"


def _size(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


_PLAIN = (
    Case("MatMul", (5, 7), (7, 9)),
    Case("MatMul", (128, 256), (256, 384)),
    Case("MatMul", (1, 1024), (1024, 512)),
    Case("MatMul", (4, 32, 64), (64, 96)),
    Case("MatMul", (4, 33, 65), (4, 65, 17), constant=False),
    Case("MatMul", (2, 3, 16, 24), (1, 3, 24, 8), constant=False),
    Case("MatMul", (3, 1, 8, 16), (5, 16, 8), constant=False),
    Case("Gemm", (64, 128), (128, 96), (96,)),
    Case("Gemm", (64, 128), (96, 128), (96,), trans_b=True),
    Case("Gemm", (128, 65), (128, 63), (65, 63), trans_a=True, alpha=0.5, beta=2.0),
    Case("Gemm", (40, 24), (56, 40), (24, 1), trans_a=True, trans_b=True, constant=False),
    Case("Gemm", (17, 33), (33, 65), (), alpha=-1.5),
    Case("Gemm", (16, 256), (256, 128), relu=True),
    Case("Gemm", (16, 256), (256, 128), (128,), relu=True),
)
_MORE = (
    Case("MatMul", (7, 1021), (1021, 13)),
    Case("MatMul", (512, 1024), (1024, 1024)),
    Case("MatMul", (16, 4096), (4096, 1024)),
    Case("MatMul", (96, 64, 32), (96, 32, 64), constant=False),
    Case("MatMul", (64,), (64, 32)),
    Case("MatMul", (32, 64), (64,)),
    Case("Gemm", (333, 111), (111, 77), (1, 77), beta=0.5),
    Case("Gemm", (96, 200), (72, 200), (96, 72), trans_b=True, constant=False),
    Case("Gemm", (256, 64), (256, 512), trans_a=True),
)


def cases(card: bool, quick: bool, seed: int) -> Iterator[Case]:
    """All of them, or a part; on a CPU in fp32 only. Beside the fixed ones, some drawn by `seed`."""
    kinds = [("fp32", "exact")]
    if card:
        kinds += [("fp16", "exact"), ("bf16", "exact"), ("fp32", "tf32"), ("fp32", "bf16")]
    fixed = _PLAIN if quick else _PLAIN + _MORE
    for at, (dtype, precision) in enumerate(kinds):
        for case in fixed:
            yield replace(case, dtype=dtype, precision=precision)
        random = np.random.default_rng([seed, at])
        for _ in range(2 if quick else 8):
            yield replace(_drawn(random), dtype=dtype, precision=precision)


def _drawn(random: np.random.Generator) -> Case:
    m, n, k = (int(2 ** random.uniform(0, 9)) for _ in range(3))
    if random.random() < 0.5:
        lead = (int(random.integers(1, 5)),) if random.random() < 0.5 else ()
        return Case("MatMul", (*lead, m, k), (k, n), constant=random.random() < 0.5)
    trans_a, trans_b = bool(random.random() < 0.5), bool(random.random() < 0.5)
    c: tuple[int, ...] | None = [None, (n,), (m, n), (m, 1), ()][int(random.integers(5))]
    return Case(
        "Gemm",
        (k, m) if trans_a else (m, k),
        (n, k) if trans_b else (k, n),
        c,
        trans_a=trans_a,
        trans_b=trans_b,
        alpha=float(random.choice([1.0, 0.25, -2.0])),
        beta=float(random.choice([1.0, 0.5])),
        constant=bool(random.random() < 0.5),
    )


@dataclass(frozen=True)
class Ready:
    """A case as a model, what to feed it, and what is right."""

    model: bytes
    feeds: dict[str, Array]
    exact: Wide
    tolerance: Wide


def make(case: Case, seed: int) -> Ready:
    """Operands drawn from a normal distribution, and rounded to the case's type."""
    random = np.random.default_rng(seed)
    shapes = {"A": case.a, "B": case.b}
    if case.c is not None:
        shapes["C"] = case.c
    # fp32 arrays whose values the type holds; bf16 has no arrays of its own, so its models cast.
    values = {
        name: rounded(random.standard_normal(shape, np.float32), case.dtype) for name, shape in shapes.items()
    }
    stored = np.float16 if case.dtype == "fp16" else np.float32
    arrays: dict[str, Array] = {name: value.astype(stored) for name, value in values.items()}
    kind = _onnx.FLOAT16 if case.dtype == "fp16" else _onnx.FLOAT
    weights = {name: arrays[name] for name in shapes if case.constant and name != "A"}
    inputs = {name: (kind, shapes[name]) for name in shapes if name not in weights}
    exact, tolerance = _right(case, {k: v.astype(np.float64) for k, v in values.items()})
    return Ready(
        _model(case, list(shapes), inputs, weights, (kind, exact.shape)),
        {name: arrays[name] for name in inputs},
        exact,
        tolerance,
    )


def rounded(values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.float32]:
    """The nearest values that the type holds, as fp32."""
    if dtype == "fp16":
        return values.astype(np.float16).astype(np.float32)
    if dtype == "bf16":  # to the nearest, ties to even
        bits = np.ascontiguousarray(values).view(np.uint32)
        bits = bits + 0x7FFF + ((bits >> 16) & 1)
        return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32).reshape(values.shape)
    return values


def _model(
    case: Case,
    names: Sequence[str],
    inputs: Mapping[str, tuple[int, Sequence[int]]],
    weights: Mapping[str, Array],
    output: tuple[int, Sequence[int]],
) -> bytes:
    nodes = []
    operands = list(names)
    cast = case.dtype == "bf16"
    if cast:
        operands = [f"{name}_bf16" for name in names]
        nodes += [_onnx.Node("Cast", [n], f"{n}_bf16", {"to": _onnx.BFLOAT16}) for n in names]
    attributes: dict[str, float | int | Sequence[int]] = {}
    if case.op == "Gemm":
        attributes = {
            "transA": int(case.trans_a),
            "transB": int(case.trans_b),
            "alpha": case.alpha,
            "beta": case.beta,
        }
    nodes.append(_onnx.Node(case.op, operands, "P", attributes))
    last = "P"
    if cast:  # first, for nobody need have a Relu of bf16
        nodes.append(_onnx.Node("Cast", [last], "Y", {"to": _onnx.FLOAT}))
        last = "Y"
    if case.relu:
        nodes.append(_onnx.Node("Relu", [last], "R"))
        last = "R"
    return _onnx.model(nodes, inputs, (last, *output), weights)


def _right(case: Case, values: dict[str, Wide]) -> tuple[Wide, Wide]:
    """The exact result, and how far a right one may be from it (the formula of docs/tuning.md)."""
    a, b = values["A"], values["B"]
    if case.op == "Gemm":
        a, b = (a.T if case.trans_a else a), (b.T if case.trans_b else b)
    k = a.shape[-1]
    exact = np.asarray(case.alpha * np.matmul(a, b))
    size = np.asarray(abs(case.alpha) * np.matmul(np.abs(a), np.abs(b)))
    addend: Any = 0.0
    if "C" in values:
        exact = exact + case.beta * values["C"]
        addend = np.abs(case.beta * values["C"])
        size = size + addend
    allowed = tolerance(exact, size, k, case.dtype, case.precision)
    if "C" in values:  # the product and beta * C may each be rounded before they are added
        allowed = allowed + _UNIT[case.dtype] * (np.abs(exact) + 2 * addend)
    if case.relu:
        exact = np.maximum(exact, 0.0)
    return exact, allowed


def tolerance(exact: Wide, size: Wide, k: int, dtype: str, precision: str) -> Wide:
    """How far a right product of k terms, whose magnitudes add up to `size`, may be from the exact one."""
    relative = 2 * 2.0**-24 * (math.sqrt(k) + k / 8 + 8) + 2 * _ROUNDING[precision]
    return np.asarray(relative * size + 2 * _UNIT[dtype] * np.abs(exact) + (k + 6) * _SMALLEST[dtype])


def error(got: Array, ready: Ready) -> float:
    """The largest |got - exact| / tolerance; above 1 is wrong, and so is a wrong shape or a NaN."""
    if got.shape != ready.exact.shape:
        return math.inf
    off = np.abs(got.astype(np.float64) - ready.exact) / ready.tolerance
    return float(np.nan_to_num(off, nan=math.inf).max(initial=0.0))
