"""A perceptron of fully connected layers with ReLU between: nothing but products, at once to build."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx

from .graph import Graph, size_or_name
from .weights import RandomWeights

SIZES = (512, 2048, 2048, 512)


def build(
    sizes: Sequence[int] = SIZES,
    *,
    batch: int | None = None,
    seed: int = 0,
    dtype: type[np.floating] = np.float32,
) -> onnx.ModelProto:
    """Gemm layers of `sizes`, ReLU between them, random weights; a batch that is None stays free.

    Input: x [batch, sizes[0]]. Output: y [batch, sizes[-1]].
    """
    rows = size_or_name(batch, "batch")
    random = RandomWeights(seed)
    with Graph("mlp", dtype=dtype) as graph:
        state = graph.input("x", [rows, sizes[0]])
        last = len(sizes) - 2
        for layer, (k, n) in enumerate(itertools.pairwise(sizes)):
            weight = graph.weight(f"layer{layer}.weight", random.normal(k, n, scale=k**-0.5))
            bias = graph.weight(f"layer{layer}.bias", random.normal(n, scale=0.1))
            state = graph.op("Gemm", state, weight, bias, name="y" if layer == last else "")
            if layer < last:
                state = graph.op("Relu", state)
        graph.output(state, [rows, sizes[-1]])
        return graph.model()
