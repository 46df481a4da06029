"""A BERT-style encoder in plain ONNX operators, the way exporters write it: nothing is fused.

Used with real weights (`minilm`) and with random ones (`bert`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from .blocks import gelu, padding_bias
from .graph import Dim, Graph

Weights = Callable[[str, tuple[int, ...]], NDArray[np.generic]]
"""Gives the tensor of that Hugging Face name and shape; dense layers are [out, in]."""


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes of the network. `intermediate` is the width of the feed-forward part."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int = 30522
    positions: int = 512
    types: int = 2
    epsilon: float = 1e-12

    def __post_init__(self) -> None:
        """Raises ValueError when the heads do not divide the hidden size."""
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} is not a multiple of heads={self.heads}")


@dataclass(frozen=True)
class _Shapes:
    heads: str  # [batch, sequence, heads, head size]
    merged: str  # [batch, sequence, hidden]


def encoder(graph: Graph, config: EncoderConfig, weights: Weights, batch: Dim, sequence: Dim) -> str:
    """Adds inputs, embeddings and layers; returns the last hidden state's name [batch, sequence, hidden].

    Inputs: input_ids, attention_mask (1: a token, 0: padding), token_type_ids, all int64 [batch, sequence].
    """
    ids, mask, kinds = (
        graph.input(name, [batch, sequence], TensorProto.INT64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    rows, columns = graph.dim_of(ids, 0, batch), graph.dim_of(ids, 1, sequence)
    head_size = config.hidden // config.heads
    shapes = _Shapes(
        graph.dims(rows, columns, config.heads, head_size), graph.dims(rows, columns, config.hidden)
    )
    state = _embeddings(graph, config, weights, ids, kinds, sequence)
    bias = padding_bias(graph, mask)
    for layer in range(config.layers):
        prefix = f"encoder.layer.{layer}"
        context = _attention(graph, config, weights, f"{prefix}.attention.self", state, bias, shapes)
        dense = _dense(
            graph, weights, f"{prefix}.attention.output.dense", context, config.hidden, config.hidden
        )
        state = _norm(
            graph, config, weights, f"{prefix}.attention.output.LayerNorm", graph.op("Add", dense, state)
        )
        wide = _dense(
            graph, weights, f"{prefix}.intermediate.dense", state, config.hidden, config.intermediate
        )
        narrow = _dense(
            graph, weights, f"{prefix}.output.dense", gelu(graph, wide), config.intermediate, config.hidden
        )
        name = "last_hidden_state" if layer == config.layers - 1 else ""
        state = _norm(
            graph, config, weights, f"{prefix}.output.LayerNorm", graph.op("Add", narrow, state), name
        )
    return state


def _embeddings(
    graph: Graph, config: EncoderConfig, weights: Weights, ids: str, kinds: str, sequence: Dim
) -> str:
    def table(name: str, rows: int) -> str:
        full = f"embeddings.{name}.weight"
        return graph.weight(full, weights(full, (rows, config.hidden)))

    words = graph.op("Gather", table("word_embeddings", config.vocabulary), ids)
    types = graph.op("Gather", table("token_type_embeddings", config.types), kinds)
    every = graph.weight("embeddings.position_ids", np.arange(config.positions, dtype=np.int64)[None, :])
    end = graph.dims(graph.dim_of(ids, 1, sequence))
    positions = graph.op("Slice", every, graph.ints(0), end, graph.ints(1))
    graph.shaped(positions, [1, sequence], TensorProto.INT64)
    places = graph.op("Gather", table("position_embeddings", config.positions), positions)
    total = graph.op("Add", graph.op("Add", words, types), places)
    return _norm(graph, config, weights, "embeddings.LayerNorm", total)


def _attention(
    graph: Graph, config: EncoderConfig, weights: Weights, prefix: str, state: str, bias: str, shapes: _Shapes
) -> str:
    def heads(part: str, *order: int) -> str:
        flat = _dense(graph, weights, f"{prefix}.{part}", state, config.hidden, config.hidden)
        return graph.op("Transpose", graph.op("Reshape", flat, shapes.heads), perm=list(order))

    query, key, value = heads("query", 0, 2, 1, 3), heads("key", 0, 2, 3, 1), heads("value", 0, 2, 1, 3)
    root = math.sqrt(config.hidden // config.heads)
    scores = graph.op("Div", graph.op("MatMul", query, key), graph.scalar(root))
    chances = graph.op("Softmax", graph.op("Add", scores, bias), axis=-1)
    context = graph.op("Transpose", graph.op("MatMul", chances, value), perm=[0, 2, 1, 3])
    return graph.op("Reshape", context, shapes.merged)


def _dense(graph: Graph, weights: Weights, prefix: str, x: str, inside: int, outside: int) -> str:
    kernel = graph.weight(f"{prefix}.weight", weights(f"{prefix}.weight", (outside, inside)).T)
    bias = graph.weight(f"{prefix}.bias", weights(f"{prefix}.bias", (outside,)))
    return graph.op("Add", bias, graph.op("MatMul", x, kernel))


def _norm(graph: Graph, config: EncoderConfig, weights: Weights, prefix: str, x: str, name: str = "") -> str:
    gain = graph.weight(f"{prefix}.weight", weights(f"{prefix}.weight", (config.hidden,)))
    bias = graph.weight(f"{prefix}.bias", weights(f"{prefix}.bias", (config.hidden,)))
    return graph.op("LayerNormalization", x, gain, bias, name=name, axis=-1, epsilon=config.epsilon)
