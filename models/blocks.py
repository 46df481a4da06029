"""Parts that several builders share: dense layers, norms, heads. Plain ONNX operators, nothing is fused."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .graph import Dim, Graph
from .weights import RandomWeights

Part = int | str
"""A dimension for `Graph.dims`: a size, or the value that holds it."""


@dataclass(frozen=True)
class Blocks:
    """Adds parts with seeded random weights to a graph; every method returns a value's name."""

    graph: Graph
    rng: RandomWeights

    def linear(self, name: str, x: str, inside: int, outside: int, *, bias: bool = True) -> str:
        """x W + b. 1 / sqrt(inside) keeps the size of the activations from layer to layer."""
        graph = self.graph
        weight = self.rng.normal(inside, outside, scale=inside**-0.5)
        y = graph.op("MatMul", x, graph.weight(f"{name}.weight", weight))
        if not bias:
            return y
        return graph.op("Add", graph.weight(f"{name}.bias", self.rng.normal(outside, scale=0.02)), y)

    def layer_norm(self, name: str, x: str, width: int, *, epsilon: float = 1e-5, output: str = "") -> str:
        """LayerNormalization of the last dimension."""
        graph = self.graph
        gain = graph.weight(f"{name}.weight", self.rng.near_one(width))
        bias = graph.weight(f"{name}.bias", self.rng.normal(width, scale=0.02))
        return graph.op("LayerNormalization", x, gain, bias, name=output, axis=-1, epsilon=epsilon)

    def rms_norm(self, name: str, x: str, width: int, *, epsilon: float = 1e-6, output: str = "") -> str:
        """x / sqrt(mean(x^2) + epsilon) * gain, as exporters write it."""
        graph = self.graph
        gain = graph.weight(f"{name}.weight", self.rng.near_one(width))
        mean = graph.op("ReduceMean", graph.op("Pow", x, graph.scalar(2.0)), axes=[-1], keepdims=1)
        root = graph.op("Sqrt", graph.op("Add", mean, graph.scalar(epsilon)))
        return graph.op("Mul", gain, graph.op("Div", x, root), name=output)

    def gelu_by_tanh(self, x: str) -> str:
        """The approximation of GPT-2: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""
        graph = self.graph
        cubed = graph.op("Mul", graph.op("Pow", x, graph.scalar(3.0)), graph.scalar(0.044715))
        angle = graph.op("Mul", graph.op("Add", x, cubed), graph.scalar(math.sqrt(2.0 / math.pi)))
        outside = graph.op("Add", graph.op("Tanh", angle), graph.scalar(1.0))
        return graph.op("Mul", graph.op("Mul", x, graph.scalar(0.5)), outside)

    def split_heads(self, x: str, rows: Part, columns: Part, heads: int, size: int, *order: int) -> str:
        """[rows, columns, heads * size] -> [rows, heads, columns, size], or another `order`."""
        graph = self.graph
        split = graph.op("Reshape", x, graph.dims(rows, columns, heads, size))
        return graph.op("Transpose", split, perm=list(order or (0, 2, 1, 3)))

    def attend(
        self, query: str, turned_key: str, value: str, shape: str, *, root: str = "", bias: str = ""
    ) -> str:
        """softmax(q k / root + bias) v with the heads joined again: `shape` is [rows, columns, hidden].

        `turned_key` is [rows, heads, size, keys]; without `root` scores are not divided.
        """
        graph = self.graph
        scores = graph.op("MatMul", query, turned_key)
        if root:
            scores = graph.op("Div", scores, root)
        if bias:
            scores = graph.op("Add", scores, bias)
        chances = graph.op("Softmax", scores, axis=-1)
        mixed = graph.op("Transpose", graph.op("MatMul", chances, value), perm=[0, 2, 1, 3])
        return graph.op("Reshape", mixed, shape)


def gelu(graph: Graph, x: str) -> str:
    """The exact GELU: x * (1 + erf(x / sqrt(2))) / 2."""
    erf = graph.op("Erf", graph.op("Div", x, graph.scalar(math.sqrt(2.0))))
    inside = graph.op("Mul", x, graph.op("Add", erf, graph.scalar(1.0)))
    return graph.op("Mul", inside, graph.scalar(0.5))


def lowest(graph: Graph) -> str:
    """The lowest finite number of the graph's type: what a mask adds."""
    return graph.scalar(float(np.finfo(graph.dtype.type).min))


def padding_bias(graph: Graph, mask: str) -> str:
    """[batch, 1, 1, sequence]: 0 for a token (1 in `mask`), the lowest finite number for padding."""
    wide = graph.op("Cast", graph.op("Unsqueeze", mask, graph.ints(1, 2)), to=graph.float_type)
    return graph.op("Mul", graph.op("Sub", graph.scalar(1.0), wide), lowest(graph))


def length_of(graph: Graph, source: str, axis: int, known: Dim) -> str:
    """Dimension `axis` of `source` as a scalar, for Range: a constant where it is known."""
    if isinstance(known, int):
        return graph.weight(f"length_{known}", np.array(known, dtype=np.int64))
    index = graph.weight(f"axis_{axis}", np.array(axis, dtype=np.int64))
    return graph.op("Gather", graph.op("Shape", source), index, axis=0)


def count(graph: Graph, length: str) -> str:
    """0, 1, ... below `length`."""
    zero = graph.weight("count.zero", np.array(0, dtype=np.int64))
    one = graph.weight("count.one", np.array(1, dtype=np.int64))
    return graph.op("Range", zero, length, one)
