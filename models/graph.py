"""A small builder over onnx.helper: nodes in, weights inline or straight into an external data file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8  # the one of opset 17: every ONNX Runtime that can load plugin providers reads it
PRODUCER = "onnxruntime-ep-tunableop"
_PAGE = 4096  # external tensors start on a page, so that ONNX Runtime maps the file instead of copying it

Dim = int | str
"""A fixed size, or the name of a size that is free."""


class Graph:
    """Collects nodes, inputs, outputs and weights, then makes a checked ModelProto.

    With `external`, floating point weights of 1 KiB and more are written to that file as they arrive and
    never kept in memory; the model must then be saved in the same folder. Use it as a context manager, or
    call `close`.
    """

    def __init__(
        self, name: str, *, dtype: type[np.floating] = np.float32, external: Path | None = None
    ) -> None:
        """Starts an empty graph whose floating point tensors are of `dtype`."""
        self.name = name
        self.dtype = np.dtype(dtype)
        self.float_type = int(helper.np_dtype_to_tensor_dtype(self.dtype))
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._shaped: list[onnx.ValueInfoProto] = []
        self._initializers: dict[str, TensorProto] = {}
        self._external = external
        self._file = None if external is None else external.open("wb")
        self._serial = 0

    def __enter__(self) -> Graph:
        """Returns the graph itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the external data file."""
        self.close()

    def close(self) -> None:
        """Closes the external data file; no weight can be added afterwards."""
        if self._file is not None:
            self._file.close()

    def input(self, name: str, shape: Sequence[Dim], elem_type: int | None = None) -> str:
        """Declares a model input (of the graph's own dtype unless told) and returns its name."""
        kind = self.float_type if elem_type is None else elem_type
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, name: str, shape: Sequence[Dim], elem_type: int | None = None) -> None:
        """Declares that the value `name` is a model output."""
        kind = self.float_type if elem_type is None else elem_type
        self._outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))

    def shaped(self, name: str, shape: Sequence[Dim], elem_type: int) -> str:
        """States a shape that inference cannot find out; returns `name`."""
        self._shaped.append(helper.make_tensor_value_info(name, elem_type, list(shape)))
        return name

    def op(self, op_type: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Adds a node with one output; returns the output's name, which is `name` or a fresh one."""
        if not name:
            self._serial += 1
            name = f"{op_type.lower()}_{self._serial}"
        self._nodes.append(helper.make_node(op_type, list(inputs), [name], name=f"/{name}", **attributes))
        return name

    def split(self, x: str, sizes: Sequence[int], *, axis: int, name: str) -> list[str]:
        """Adds a Split; returns the parts' names."""
        parts = [f"{name}_{i}" for i in range(len(sizes))]
        inputs = [x, self.ints(*sizes)]
        self._nodes.append(helper.make_node("Split", inputs, parts, name=f"/{name}", axis=axis))
        return parts

    def weight(self, name: str, values: NDArray[np.generic]) -> str:
        """Adds a weight, floating point values converted to the graph's dtype; returns its name."""
        if np.issubdtype(values.dtype, np.floating):
            values = values.astype(self.dtype, copy=False)
        values = np.ascontiguousarray(values).reshape(values.shape)  # which has no scalars
        small = values.nbytes < 1024 or values.dtype != self.dtype  # shapes and places stay readable
        if self._external is None or self._file is None or small:
            self._initializers[name] = numpy_helper.from_array(values, name)
            return name
        self._file.seek(-self._file.tell() % _PAGE, 1)
        where = {"location": self._external.name, "offset": self._file.tell(), "length": values.nbytes}
        values.tofile(self._file)
        tensor = TensorProto(name=name, data_location=TensorProto.EXTERNAL, dims=values.shape)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(values.dtype)
        for key, value in where.items():
            tensor.external_data.add(key=key, value=str(value))
        self._initializers[name] = tensor
        return name

    def scalar(self, value: float) -> str:
        """A constant of the graph's dtype and rank 0; equal ones are shared."""
        name = f"const_{value!r}"
        if name not in self._initializers:
            self.weight(name, np.array(value, dtype=self.dtype))
        return name

    def ints(self, *values: int) -> str:
        """A constant 1-D int64 tensor (axes, shapes); equal ones are shared."""
        name = "ints_" + "_".join(map(str, values))
        if name not in self._initializers:
            self.weight(name, np.array(values, dtype=np.int64))
        return name

    def dims(self, *parts: int | str) -> str:
        """A shape for Reshape or Expand: integers, and names of 1-D values of one element (see `dim_of`).

        With integers only it is a constant; otherwise a Concat node computes it, as exporters write it.
        """
        if all(isinstance(part, int) for part in parts):
            return self.ints(*(part for part in parts if isinstance(part, int)))
        if len(parts) == 1:
            return str(parts[0])
        return self.op("Concat", *(self.ints(p) if isinstance(p, int) else p for p in parts), axis=0)

    def dim_of(self, source: str, axis: int, known: Dim) -> int | str:
        """Dimension `axis` of `source` for `dims`: `known` if that is a size, else the value holding it."""
        if isinstance(known, int):
            return known
        return self.op("Gather", self.op("Shape", source), self.ints(axis), axis=0)

    def model(self) -> onnx.ModelProto:
        """The finished model, with the shape of every value in it, as exporters leave it.

        The shapes matter: without them ONNX Runtime leaves out fusions when a size is free, and would be
        compared with at less than its best. Raises onnx.checker.ValidationError or
        onnx.shape_inference.InferenceError when the graph is not valid ONNX.
        """
        large: list[TensorProto] = []
        small: list[TensorProto] = []
        for tensor in self._initializers.values():
            (large if tensor.data_type == self.float_type and tensor.dims else small).append(tensor)
        # On a copy with inputs in place of the weights: both steps copy what they are given.
        stand_ins = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in large]
        sketch = _wrap(
            helper.make_graph(
                self._nodes,
                self.name,
                self._inputs + stand_ins,
                self._outputs,
                small,
                value_info=self._shaped,
            )
        )
        onnx.checker.check_model(sketch)
        inferred = onnx.shape_inference.infer_shapes(
            sketch, check_type=True, strict_mode=True, data_prop=True
        )
        values = list(inferred.graph.value_info)
        return _wrap(
            helper.make_graph(
                self._nodes, self.name, self._inputs, self._outputs, large + small, value_info=values
            )
        )


def size_or_name(size: int | None, name: str) -> Dim:
    """A builder's argument as a dimension: None is a free one of that name."""
    return name if size is None else size


def _wrap(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name=PRODUCER,
    )


def save(model: onnx.ModelProto, out: Path) -> None:
    """Writes the model file; weights that are already in an external file stay there.

    Raises onnx.checker.ValidationError when the files do not make a valid model.
    """
    out.write_bytes(model.SerializeToString())
    if any(tensor.external_data for tensor in model.graph.initializer):
        onnx.checker.check_model(str(out))


def external_path(out: Path) -> Path:
    """The data file that belongs to the model file `out`."""
    return out.with_name(out.name + ".data")
