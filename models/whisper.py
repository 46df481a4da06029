"""A Whisper-style encoder of sound with random weights: two convolutions over time, positions, layers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from .blocks import Blocks, gelu
from .graph import Dim, Graph, size_or_name
from .weights import RandomWeights


@dataclass(frozen=True)
class WhisperConfig:
    """Sizes. `positions` bounds the tokens, of which there is one for two frames."""

    layers: int = 6
    hidden: int = 512
    heads: int = 8
    intermediate: int = 2048
    mels: int = 80
    positions: int = 1500

    def __post_init__(self) -> None:
        """Raises ValueError when the heads do not divide the hidden size."""
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} is not a multiple of heads={self.heads}")


BASE = WhisperConfig()


def build(
    config: WhisperConfig = BASE,
    *,
    batch: int | None = None,
    frames: int | None = None,
    seed: int = 0,
    dtype: type[np.floating] = np.float32,
    external: Path | None = None,
) -> onnx.ModelProto:
    """The model; a size that is None stays free.

    Input: input_features [batch, mels, frames]. Output: last_hidden_state [batch, (frames + 1) / 2, hidden].
    """
    rows = size_or_name(batch, "batch")
    length = size_or_name(frames, "frames")
    tokens: Dim = "tokens" if frames is None else (frames + 1) // 2
    hidden, size = config.hidden, config.hidden // config.heads
    with Graph("whisper", dtype=dtype, external=external) as graph:
        blocks = Blocks(graph, RandomWeights(seed))
        sound = graph.input("input_features", [rows, config.mels, length])
        state = gelu(graph, _convolution(blocks, "conv1", sound, config.mels, hidden, stride=1))
        state = gelu(graph, _convolution(blocks, "conv2", state, hidden, hidden, stride=2))
        state = graph.op("Transpose", state, perm=[0, 2, 1])
        number, columns = graph.dim_of(state, 0, rows), graph.dim_of(state, 1, tokens)
        places = graph.weight("positions", blocks.rng.normal(config.positions, hidden, scale=0.02))
        used = graph.op("Slice", places, graph.ints(0), graph.dims(columns), graph.ints(0))
        graph.shaped(used, [tokens, hidden], graph.float_type)
        state = graph.op("Add", state, used)
        merged = graph.dims(number, columns, hidden)
        scale = graph.scalar(size**-0.5)
        for layer in range(config.layers):
            prefix = f"layers.{layer}"
            normed = blocks.layer_norm(f"{prefix}.before", state, hidden)
            query = graph.op("Mul", blocks.linear(f"{prefix}.q", normed, hidden, hidden), scale)
            key = blocks.linear(f"{prefix}.k", normed, hidden, hidden, bias=False)
            value = blocks.linear(f"{prefix}.v", normed, hidden, hidden)
            mixed = blocks.attend(
                blocks.split_heads(query, number, columns, config.heads, size),
                blocks.split_heads(key, number, columns, config.heads, size, 0, 2, 3, 1),
                blocks.split_heads(value, number, columns, config.heads, size),
                merged,
            )
            state = graph.op("Add", state, blocks.linear(f"{prefix}.o", mixed, hidden, hidden))
            normed = blocks.layer_norm(f"{prefix}.after", state, hidden)
            wide = gelu(graph, blocks.linear(f"{prefix}.up", normed, hidden, config.intermediate))
            narrow = blocks.linear(f"{prefix}.down", wide, config.intermediate, hidden)
            state = graph.op("Add", state, narrow)
        state = blocks.layer_norm("norm", state, hidden, output="last_hidden_state")
        graph.output(state, [rows, tokens, hidden])
        return graph.model()


def _convolution(blocks: Blocks, name: str, x: str, inside: int, outside: int, *, stride: int) -> str:
    weight = blocks.rng.normal(outside, inside, 3, scale=(3 * inside) ** -0.5)
    bias = blocks.rng.normal(outside, scale=0.02)
    return blocks.graph.op(
        "Conv",
        x,
        blocks.graph.weight(f"{name}.weight", weight),
        blocks.graph.weight(f"{name}.bias", bias),
        kernel_shape=[3],
        strides=[stride],
        pads=[1, 1],
    )
