"""Models for tests of captured graphs, and runs with numbers of the caller's: in the process of a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from support.cards import empty_on_card, since, value_on_card

Array = npt.NDArray[Any]
K = 24
LAYERS = 5

captures = since(26, "cannot capture graphs for a plugin provider")


def weights() -> list[Array]:
    """Whole numbers, so that every order of adding is exact."""
    rng = np.random.default_rng(0)
    return [rng.integers(-1, 2, (K, K)).astype(np.float32) for _ in range(LAYERS)]


def chain(outputs: tuple[str, ...] = ("Y",)) -> onnx.ModelProto:
    """X [m, 24] times five constant matrices: h0, h1 ... Y."""
    names = ["X", *(f"h{layer}" for layer in range(LAYERS - 1)), "Y"]
    nodes = [
        helper.make_node("MatMul", [names[layer], f"W{layer}"], [names[layer + 1]]) for layer in range(LAYERS)
    ]
    constants = [numpy_helper.from_array(weight, f"W{layer}") for layer, weight in enumerate(weights())]
    return model(nodes, constants, outputs)


def model(
    nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], outputs: tuple[str, ...] = ("Y",)
) -> onnx.ModelProto:
    """X [m, 24] to outputs of the same shape."""
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["m", K])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["m", K]) for name in outputs],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def answer(x: Array) -> Array:
    """Y of `chain`."""
    for weight in weights():
        x = x @ weight
    return x


def whole(rng: np.random.Generator, rows: int) -> Array:
    """An X."""
    return rng.integers(-2, 3, (rows, K)).astype(np.float32)


def numbered(number: int) -> ort.RunOptions:
    """Run options that name a graph."""
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(number))
    return options


class Bound:
    """Buffers on the card that are bound to a session of `chain`, and a graph's number."""

    def __init__(self, session: ort.InferenceSession, rows: int, number: int) -> None:
        self.session = session
        self.x = value_on_card(np.zeros((rows, K), np.float32))
        self.y = empty_on_card((rows, K), np.float32)
        self.binding = session.io_binding()
        self.binding.bind_ortvalue_input("X", self.x)
        self.binding.bind_ortvalue_output("Y", self.y)
        self.options = numbered(number)

    def run(self, x: Array) -> Array:
        """Y."""
        self.x.update_inplace(x)
        self.session.run_with_iobinding(self.binding, self.options)
        return np.asarray(self.y.numpy())
