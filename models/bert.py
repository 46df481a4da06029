"""BERT-base in shape, random in content: what a benchmark needs of it, without a download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from .encoder import EncoderConfig, encoder
from .graph import Graph, size_or_name
from .weights import RandomWeights

BASE = EncoderConfig(layers=12, hidden=768, heads=12, intermediate=3072)


def build(
    config: EncoderConfig = BASE,
    *,
    batch: int | None = None,
    sequence: int | None = None,
    seed: int = 0,
    dtype: type[np.floating] = np.float32,
    external: Path | None = None,
) -> onnx.ModelProto:
    """The model; a size that is None stays free. Weights: seeded, N(0, 0.02), in `external` if given.

    Inputs: input_ids, attention_mask, token_type_ids, int64 [batch, sequence]. Output: last_hidden_state
    [batch, sequence, hidden] of `dtype`.
    """
    rng = RandomWeights(seed)

    def weights(name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
        if name.endswith("LayerNorm.weight"):
            return rng.near_one(*shape)
        return rng.normal(*shape, scale=0.02)

    rows = size_or_name(batch, "batch")
    columns = size_or_name(sequence, "sequence")
    with Graph("bert", dtype=dtype, external=external) as graph:
        state = encoder(graph, config, weights, rows, columns)
        graph.output(state, [rows, columns, config.hidden])
        return graph.model()
