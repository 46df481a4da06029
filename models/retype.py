"""The same model with its floating-point values in another type."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


def retyped(model: onnx.ModelProto, dtype: type[np.floating]) -> onnx.ModelProto:
    """A copy whose fp32 (or fp16) values are all of `dtype`, which is one of these two.

    Constants beyond the type's range become its largest numbers, as masks want it. Raises ValueError for a
    model with both types, of which some are there for a reason, and for one with weights in another file.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kinds = {tensor.data_type for tensor in _tensors(made.graph)} & set(_FLOATS)
    if len(kinds) > 1:
        raise ValueError("the model has constants in fp32 and in fp16")
    wanted = int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    limits = np.finfo(dtype)
    for tensor in _tensors(made.graph):
        if tensor.data_type not in _FLOATS:
            continue
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ValueError(f"{tensor.name}: its values lie in another file")
        values = np.clip(numpy_helper.to_array(tensor), limits.min, limits.max).astype(dtype)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for value in (*made.graph.input, *made.graph.output, *made.graph.value_info):
        if value.type.tensor_type.elem_type in _FLOATS:
            value.type.tensor_type.elem_type = wanted
    for node in made.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in _FLOATS:
                attribute.i = wanted
    return made


def _tensors(graph: onnx.GraphProto) -> Iterable[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
