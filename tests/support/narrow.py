"""Products in the types of a card, and how far they may be from the exact ones."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from support.graphs import Constants, Shape, graph, model, value

Array = npt.NDArray[Any]
Exact = npt.NDArray[np.float64]

TYPES: dict[str, Any] = {
    "fp32": np.float32,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp64": np.float64,
}
UNIT = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8, "fp64": 2.0**-53}  # of the result
SUM = {"fp32": 2.0**-24, "fp16": 2.0**-24, "bf16": 2.0**-24, "fp64": 2.0**-53}  # of the sums
TINY = {"fp32": 2.0**-126, "fp16": 2.0**-24, "bf16": 2.0**-126, "fp64": 2.0**-1022}


def random(shape: tuple[int, ...], kind: str, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(TYPES[kind])


def onnx_type(kind: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[kind])))


def wide(array: Array) -> Exact:
    return array.astype(np.float64)


def check(got: Array, kind: str, exact: Exact, magnitude: Exact, k: int, what: str = "") -> None:
    """`magnitude`: the sum of the absolute values of all that was added up."""
    assert got.shape == exact.shape, f"{what}: shape {got.shape}, expected {exact.shape}"
    roundings = min(float(k), 8.0 * float(k) ** 0.5) + 8.0
    # Twice the result's unit: what lies under a product is rounded once before it is added.
    bound = roundings * SUM[kind] * magnitude + 2.0 * UNIT[kind] * magnitude + 2.0 * TINY[kind]
    off = np.abs(wide(got) - exact)
    assert (off <= bound).all(), (
        f"{what}: off by {off.max()} where {bound.flat[off.argmax()]} is allowed; "
        f"{int((~(off <= bound)).sum())} of {exact.size} elements are wrong"
    )


def one_node(
    op: str, inputs: dict[str, Shape], constants: Constants, kind: str, opset: int = 17, **attributes: Any
) -> onnx.ModelProto:
    """One node, of which numpy sees only types that it has: bf16 is cast on the CPU."""
    free = {name: shape for name, shape in inputs.items() if name not in constants}
    if kind != "bf16":
        node = helper.make_node(op, list(inputs), ["Y"], name="node", **attributes)
        known = [value(name, shape, onnx_type(kind)) for name, shape in free.items()]
        return model(graph([node], known, [value("Y", None, onnx_type(kind))], constants), opset)
    narrow = onnx_type(kind)
    nodes = [helper.make_node("Cast", [name], [f"{name}_bf16"], to=narrow) for name in free]
    names = [name if name in constants else f"{name}_bf16" for name in inputs]
    nodes.append(helper.make_node(op, names, ["Y_bf16"], name="node", **attributes))
    nodes.append(helper.make_node("Cast", ["Y_bf16"], ["Y"], to=onnx.TensorProto.FLOAT))
    known = [value(name, shape) for name, shape in free.items()]
    return model(graph(nodes, known, [value("Y")], constants), opset)


def feed(array: Array) -> Array:
    """What numpy hands over for it: bf16 as fp32, which holds all of it."""
    return array.astype(np.float32) if array.dtype == TYPES["bf16"] else array
