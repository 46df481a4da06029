"""A model that is small enough to run thousands of times: a perceptron, with a computed product behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from models.graph import Dim, Graph
from models.weights import RandomWeights


@dataclass(frozen=True)
class Perceptron:
    """x [rows, sizes[0]] -> y: MatMul and bias for each further size, Relu in between.

    With `gram` there is a second output g = y^T y, [sizes[-1], sizes[-1]]: a product whose B is computed and
    whose k is the number of rows.
    """

    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]
    gram: bool = False

    @property
    def width(self) -> int:
        """Columns of x."""
        return int(self.layers[0][0].shape[0])

    def model(self, rows: int | None = None) -> onnx.ModelProto:
        """As ONNX; rows stay free when None."""
        graph = Graph("perceptron")
        size: Dim = "rows" if rows is None else rows
        value = graph.input("x", [size, self.width])
        for layer, (weight, bias) in enumerate(self.layers):
            names = graph.weight(f"w{layer}", weight), graph.weight(f"b{layer}", bias)
            last = layer == len(self.layers) - 1
            product = graph.op("MatMul", value, names[0])
            value = graph.op("Add", product, names[1], name="y" if last else "")
            value = value if last else graph.op("Relu", value)
        graph.output("y", [size, self.layers[-1][0].shape[1]])
        if self.gram:
            graph.op("MatMul", graph.op("Transpose", "y", perm=[1, 0]), "y", name="g")
            graph.output("g", [self.layers[-1][0].shape[1]] * 2)
        return graph.model()

    def expected(self, x: NDArray[np.float32]) -> list[NDArray[np.float64]]:
        """What the model answers, in float64."""
        value: NDArray[np.float64] = x.astype(np.float64)
        for layer, (weight, bias) in enumerate(self.layers):
            value = value @ weight.astype(np.float64) + bias.astype(np.float64)
            if layer < len(self.layers) - 1:
                value = np.maximum(value, 0)
        return [value, value.T @ value] if self.gram else [value]

    def feed(self, rows: int, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Seeded rows."""
        return {"x": RandomWeights(seed).normal(rows, self.width, scale=1.0)}


def perceptron(sizes: Sequence[int], *, gram: bool = False, seed: int = 3) -> Perceptron:
    """Seeded weights that keep values near 1."""
    draw = RandomWeights(seed)
    layers = [(draw.normal(k, n, scale=k**-0.5), draw.normal(n, scale=0.1)) for k, n in pairwise(sizes)]
    return Perceptron(tuple(layers), gram)
