"""A GPT-2-style decoder with random weights: positions that are counted, one product for q, k and v."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from .blocks import Blocks, count, length_of, lowest
from .graph import Dim, Graph, size_or_name
from .weights import RandomWeights


@dataclass(frozen=True)
class Gpt2Config:
    """Sizes. `positions` bounds the sequence."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    vocabulary: int = 50257
    positions: int = 1024

    def __post_init__(self) -> None:
        """Raises ValueError when the heads do not divide the hidden size."""
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} is not a multiple of heads={self.heads}")


BASE = Gpt2Config()


def build(
    config: Gpt2Config = BASE,
    *,
    batch: int | None = None,
    sequence: int | None = None,
    seed: int = 0,
    dtype: type[np.floating] = np.float32,
    external: Path | None = None,
) -> onnx.ModelProto:
    """A prompt; a size that is None stays free.

    Inputs: input_ids, attention_mask (1: a token, 0: padding), int64 [batch, sequence]. Outputs: logits
    [batch, sequence, vocabulary], and for each layer i present_key_i, present_value_i [batch, heads,
    sequence, head size].
    """
    rows = size_or_name(batch, "batch")
    columns = size_or_name(sequence, "sequence")
    hidden, size = config.hidden, config.hidden // config.heads
    with Graph("gpt2", dtype=dtype, external=external) as graph:
        blocks = Blocks(graph, RandomWeights(seed))
        ids, padding = (
            graph.input(name, [rows, columns], TensorProto.INT64) for name in ("input_ids", "attention_mask")
        )
        number, length = graph.dim_of(ids, 0, rows), graph.dim_of(ids, 1, columns)
        words = graph.weight("words", blocks.rng.normal(config.vocabulary, hidden, scale=0.2))
        places = graph.weight("positions", blocks.rng.normal(config.positions, hidden, scale=0.05))
        positions = graph.op("Unsqueeze", count(graph, length_of(graph, ids, 1, columns)), graph.ints(0))
        state = graph.op("Add", graph.op("Gather", words, ids), graph.op("Gather", places, positions))
        bias = _bias(graph, padding, length, rows, columns)
        flat, merged = graph.dims(-1, hidden), graph.dims(number, length, hidden)
        joined = graph.dims(number, length, 3 * hidden)
        shape = graph.dims(number, length, config.heads, size)
        for layer in range(config.layers):
            prefix = f"layers.{layer}"
            normed = blocks.layer_norm(f"{prefix}.before", state, hidden)
            # A Conv1D of GPT-2 is a Gemm over rows of tokens.
            together = graph.op(
                "Gemm",
                graph.op("Reshape", normed, flat),
                graph.weight(
                    f"{prefix}.qkv.weight", blocks.rng.normal(hidden, 3 * hidden, scale=hidden**-0.5)
                ),
                graph.weight(f"{prefix}.qkv.bias", blocks.rng.normal(3 * hidden, scale=0.02)),
            )
            wide = graph.op("Reshape", together, joined)
            parts = graph.split(wide, [hidden] * 3, axis=2, name=f"{prefix}.split")
            query, key, value = (
                graph.op("Transpose", graph.op("Reshape", part, shape), perm=[0, 2, 1, 3]) for part in parts
            )
            for kind, part in (("key", key), ("value", value)):
                name = graph.op("Identity", part, name=f"present_{kind}_{layer}")
                graph.output(name, [rows, config.heads, columns, size])
            turned = graph.op("Transpose", key, perm=[0, 1, 3, 2])
            root = graph.scalar(size**0.5)
            mixed = blocks.attend(query, turned, value, merged, root=root, bias=bias)
            state = graph.op("Add", blocks.linear(f"{prefix}.o", mixed, hidden, hidden), state)
            normed = blocks.layer_norm(f"{prefix}.after", state, hidden)
            wide = blocks.gelu_by_tanh(blocks.linear(f"{prefix}.up", normed, hidden, 4 * hidden))
            state = graph.op("Add", state, blocks.linear(f"{prefix}.down", wide, 4 * hidden, hidden))
        state = blocks.layer_norm("norm", state, hidden)
        logits = graph.op("MatMul", state, graph.op("Transpose", words, perm=[1, 0]), name="logits")
        graph.output(logits, [rows, columns, config.vocabulary])
        return graph.model()


def _bias(graph: Graph, padding: str, length: int | str, rows: Dim, columns: Dim) -> str:
    """[batch, 1, sequence, sequence]: 0, or the lowest number ahead of a token and where padding is."""
    one = numpy_helper.from_array(np.array([1], dtype=np.int64))
    square = graph.op("ConstantOfShape", graph.dims(length, length), value=one)
    graph.shaped(square, [columns, columns], TensorProto.INT64)
    past = graph.op("Trilu", square, upper=0)
    there = graph.op("Mul", past, graph.op("Unsqueeze", padding, graph.ints(1, 2)))
    graph.shaped(there, [rows, 1, columns, columns], TensorProto.INT64)
    seen = graph.op("Cast", there, to=TensorProto.BOOL)
    return graph.op("Where", seen, graph.scalar(0.0), lowest(graph))
