"""Small ONNX models, built for a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT: int = TensorProto.FLOAT
Shape = Sequence[int | str | None] | None
Constants = Mapping[str, npt.NDArray[Any]]


def value(name: str, shape: Shape = None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Constants | None = None,
    name: str = "g",
) -> onnx.GraphProto:
    initializers = [numpy_helper.from_array(array, key) for key, array in (constants or {}).items()]
    return helper.make_graph(list(nodes), name, list(inputs), list(outputs), initializers)


def model(body: onnx.GraphProto, opset: int = 17) -> onnx.ModelProto:
    # The IR version is that of old writers, so that every supported onnxruntime reads it.
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def matmul_model(
    a: Shape, b: Shape, *, constants: Constants | None = None, opset: int = 17, dtype: int = FLOAT
) -> onnx.ModelProto:
    """Y = A @ B; A or B may be among `constants`, its shape is then not used."""
    return _one_node("MatMul", {"A": a, "B": b}, constants or {}, opset, dtype)


def gemm_model(
    a: Shape,
    b: Shape,
    c: Shape = None,
    *,
    with_c: bool = True,
    constants: Constants | None = None,
    opset: int = 17,
    dtype: int = FLOAT,
    **attributes: Any,
) -> onnx.ModelProto:
    """Y = alpha * op(A) @ op(B) + beta * C."""
    inputs = {"A": a, "B": b} | ({"C": c} if with_c else {})
    return _one_node("Gemm", inputs, constants or {}, opset, dtype, **attributes)


def _one_node(
    op: str,
    inputs: Mapping[str, Shape],
    constants: Constants,
    opset: int,
    dtype: int,
    **attributes: Any,
) -> onnx.ModelProto:
    node = helper.make_node(op, list(inputs), ["Y"], name="node", **attributes)
    free = [value(name, shape, dtype) for name, shape in inputs.items() if name not in constants]
    return model(graph([node], free, [value("Y", None, dtype)], constants), opset)


def relu_model() -> onnx.ModelProto:
    """A model without a GEMM."""
    return model(graph([helper.make_node("Relu", ["X"], ["Y"])], [value("X", [3])], [value("Y")]))


def if_model(
    then: onnx.GraphProto, otherwise: onnx.GraphProto, inputs: Sequence[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """Y = then(...) if the boolean 'flag' else otherwise(...); branches use outer values by name."""
    node = helper.make_node("If", ["flag"], ["Y"], name="if", then_branch=then, else_branch=otherwise)
    flag = value("flag", [], TensorProto.BOOL)
    return model(graph([node], [flag, *inputs], [value("Y")]))


def branch(name: str, weight: str, output: str) -> onnx.GraphProto:
    node = helper.make_node("MatMul", ["X", weight], [output], name=f"{name}_matmul")
    return graph([node], [], [value(output)], name=name)


def loop_model(weight: npt.NDArray[np.float32]) -> onnx.ModelProto:
    """X @ weight, `count` times over."""
    body = graph(
        [
            helper.make_node("MatMul", ["state", "W"], ["next"], name="loop_matmul"),
            helper.make_node("Identity", ["keep"], ["keep_out"], name="keep_on"),
        ],
        [value("i", [], TensorProto.INT64), value("keep", [], TensorProto.BOOL), value("state")],
        [value("keep_out", [], TensorProto.BOOL), value("next")],
        name="body",
    )
    node = helper.make_node("Loop", ["count", "", "X"], ["Y"], name="loop", body=body)
    inputs = [value("count", [], TensorProto.INT64), value("X", ["m", weight.shape[0]])]
    return model(graph([node], inputs, [value("Y")], {"W": weight}))
