"""Runs captured into graphs through ONNX Runtime, with numbers that the caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from support.cards import BOTH, card_session, count, empty_on_card, on_card, since, value_on_card

Array = npt.NDArray[Any]
K = 24
LAYERS = 5

captures = since(26, "cannot capture graphs for a plugin provider")


def weights() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.integers(-1, 2, (K, K)).astype(np.float32) for _ in range(LAYERS)]


def chain() -> onnx.ModelProto:
    """X [m, 24] times five constant matrices: whole numbers, so that every order of adding is exact."""
    names = ["X", *(f"h{layer}" for layer in range(LAYERS - 1)), "Y"]
    nodes = [
        helper.make_node("MatMul", [names[layer], f"W{layer}"], [names[layer + 1]]) for layer in range(LAYERS)
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["m", K])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["m", K])],
        [numpy_helper.from_array(weight, f"W{layer}") for layer, weight in enumerate(weights())],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def answer(x: Array) -> Array:
    for weight in weights():
        x = x @ weight
    return x


def whole(rng: np.random.Generator, rows: int) -> Array:
    return rng.integers(-2, 3, (rows, K)).astype(np.float32)


class Bound:
    """Buffers on the card that are bound to a session, and the run options with a number."""

    def __init__(self, session: ort.InferenceSession, rows: int, number: int) -> None:
        self.session = session
        self.x = value_on_card(np.zeros((rows, K), np.float32))
        self.y = empty_on_card((rows, K), np.float32)
        self.binding = session.io_binding()
        self.binding.bind_ortvalue_input("X", self.x)
        self.binding.bind_ortvalue_output("Y", self.y)
        self.options = numbered(number)

    def run(self, x: Array) -> Array:
        self.x.update_inplace(x)
        self.session.run_with_iobinding(self.binding, self.options)
        return np.asarray(self.y.numpy())


def numbered(number: int) -> ort.RunOptions:
    options = ort.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(number))
    return options


@captures
@on_card("cuda12", "cuda13", "rocm6", "rocm7", "rocm10")
def test_a_chain_is_captured_within_the_first_run_and_replayed_from_then_on() -> None:
    rng = np.random.default_rng(1)
    session = card_session(chain(), enable_graph=1)
    bound = Bound(session, 8, 1)
    for run in range(5):
        x = whole(rng, 8)
        assert np.array_equal(bound.run(x), answer(x)), run
        assert count("captures") == 1, run
        assert count("graph_launches") == run + 1
        if run == 0:
            memory = count("mallocs")
        assert count("mallocs") == memory, "a replay allocates nothing"
    x = whole(rng, 3)
    assert np.array_equal(session.run(None, {"X": x})[0], answer(x)), "without a number: without a graph"
    assert count("graph_launches") == 5


@captures
@on_card(*BOTH)
def test_nothing_is_captured_unless_it_is_asked_for() -> None:
    bound = Bound(card_session(chain()), 8, 1)
    x = whole(np.random.default_rng(1), 8)
    for _ in range(4):
        assert np.array_equal(bound.run(x), answer(x))
    assert count("captures") == 0
