"""A T5-style encoder and decoder with random weights: biases by relative position, RMS norms, no biases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from .blocks import Blocks, count, length_of, lowest, padding_bias
from .graph import Dim, Graph, size_or_name
from .weights import RandomWeights


@dataclass(frozen=True)
class T5Config:
    """Sizes. `layers` are those of the encoder, and as many of the decoder."""

    layers: int = 6
    hidden: int = 512
    heads: int = 8
    head_size: int = 64
    intermediate: int = 2048
    vocabulary: int = 32128
    buckets: int = 32
    distance: int = 128

    def __post_init__(self) -> None:
        """Raises ValueError when the buckets cannot be divided between before, behind, near and far."""
        if self.buckets % 4:
            raise ValueError(f"buckets={self.buckets} is not a multiple of 4")


SMALL = T5Config()


@dataclass(frozen=True)
class _Tokens:
    """A sequence: the values of its sizes, and the names of shapes."""

    rows: int | str
    columns: int | str
    known: Dim
    length: str  # a scalar
    merged: str  # [batch, tokens, heads * head size]


def build(
    config: T5Config = SMALL,
    *,
    batch: int | None = None,
    sequence: int | None = None,
    target: int | None = None,
    seed: int = 0,
    dtype: type[np.floating] = np.float32,
    external: Path | None = None,
) -> onnx.ModelProto:
    """Encoder and decoder in one graph; a size that is None stays free.

    Inputs: input_ids, attention_mask (1: a token, 0: padding) int64 [batch, sequence], decoder_input_ids
    int64 [batch, target]. Output: logits [batch, target, vocabulary].
    """
    rows = size_or_name(batch, "batch")
    columns = size_or_name(sequence, "sequence")
    places = size_or_name(target, "target")
    with Graph("t5", dtype=dtype, external=external) as graph:
        blocks = Blocks(graph, RandomWeights(seed))
        ids, padding = (
            graph.input(name, [rows, columns], TensorProto.INT64) for name in ("input_ids", "attention_mask")
        )
        targets = graph.input("decoder_input_ids", [rows, places], TensorProto.INT64)
        words = graph.weight("words", blocks.rng.normal(config.vocabulary, config.hidden, scale=1.0))
        encoded = _encoder(
            blocks,
            config,
            graph.op("Gather", words, ids),
            padding,
            _tokens(graph, config, ids, rows, columns),
        )
        state = _decoder(
            blocks,
            config,
            graph.op("Gather", words, targets),
            encoded,
            padding,
            _tokens(graph, config, targets, rows, places),
            _tokens(graph, config, ids, rows, columns),
        )
        # The embeddings again, scaled.
        scaled = graph.op("Mul", state, graph.scalar(config.hidden**-0.5))
        logits = graph.op("MatMul", scaled, graph.op("Transpose", words, perm=[1, 0]), name="logits")
        graph.output(logits, [rows, places, config.vocabulary])
        return graph.model()


def _tokens(graph: Graph, config: T5Config, ids: str, rows: Dim, columns: Dim) -> _Tokens:
    number, length = graph.dim_of(ids, 0, rows), graph.dim_of(ids, 1, columns)
    inner = config.heads * config.head_size
    return _Tokens(
        number, length, columns, length_of(graph, ids, 1, columns), graph.dims(number, length, inner)
    )


def _encoder(blocks: Blocks, config: T5Config, state: str, padding: str, tokens: _Tokens) -> str:
    graph = blocks.graph
    bias = graph.op(
        "Add",
        _relative(blocks, config, "encoder", tokens, both_ways=True),
        padding_bias(graph, padding),
    )
    for layer in range(config.layers):
        prefix = f"encoder.{layer}"
        normed = blocks.rms_norm(f"{prefix}.before", state, config.hidden)
        mixed = _attention(blocks, config, f"{prefix}.self", normed, normed, bias, tokens, tokens)
        state = graph.op("Add", state, mixed)
        state = _feed_forward(blocks, config, prefix, state)
    return blocks.rms_norm("encoder.norm", state, config.hidden)


def _decoder(
    blocks: Blocks, config: T5Config, state: str, encoded: str, padding: str, tokens: _Tokens, source: _Tokens
) -> str:
    graph = blocks.graph
    bias = graph.op(
        "Add",
        _relative(blocks, config, "decoder", tokens, both_ways=False),
        _causal(graph, tokens),
    )
    other_bias = padding_bias(graph, padding)
    for layer in range(config.layers):
        prefix = f"decoder.{layer}"
        normed = blocks.rms_norm(f"{prefix}.before", state, config.hidden)
        mixed = _attention(blocks, config, f"{prefix}.self", normed, normed, bias, tokens, tokens)
        state = graph.op("Add", state, mixed)
        normed = blocks.rms_norm(f"{prefix}.between", state, config.hidden)
        mixed = _attention(blocks, config, f"{prefix}.cross", normed, encoded, other_bias, tokens, source)
        state = graph.op("Add", state, mixed)
        state = _feed_forward(blocks, config, prefix, state)
    return blocks.rms_norm("decoder.norm", state, config.hidden)


def _attention(
    blocks: Blocks, config: T5Config, prefix: str, x: str, y: str, bias: str, tokens: _Tokens, seen: _Tokens
) -> str:
    """Scores are not scaled: T5's weights are."""
    size, inner = config.head_size, config.heads * config.head_size

    def heads(part: str, of: str, where: _Tokens, *order: int) -> str:
        flat = blocks.linear(f"{prefix}.{part}", of, config.hidden, inner, bias=False)
        return blocks.split_heads(flat, where.rows, where.columns, config.heads, size, *order)

    # 1 / sqrt(size) is in the weights of q.
    query = blocks.graph.op("Mul", heads("q", x, tokens), blocks.graph.scalar(size**-0.5))
    mixed = blocks.attend(
        query, heads("k", y, seen, 0, 2, 3, 1), heads("v", y, seen), tokens.merged, bias=bias
    )
    return blocks.linear(f"{prefix}.o", mixed, inner, config.hidden, bias=False)


def _feed_forward(blocks: Blocks, config: T5Config, prefix: str, state: str) -> str:
    normed = blocks.rms_norm(f"{prefix}.after", state, config.hidden)
    wide = blocks.linear(f"{prefix}.up", normed, config.hidden, config.intermediate, bias=False)
    relu = blocks.graph.op("Relu", wide)
    narrow = blocks.linear(f"{prefix}.down", relu, config.intermediate, config.hidden, bias=False)
    return blocks.graph.op("Add", state, narrow)


def _causal(graph: Graph, tokens: _Tokens) -> str:
    """[target, target]: 0, or the lowest number for what lies ahead."""
    places = count(graph, tokens.length)
    ahead = graph.op(
        "Greater",
        graph.op("Unsqueeze", places, graph.ints(0)),
        graph.op("Unsqueeze", places, graph.ints(1)),
    )
    return graph.op("Where", ahead, lowest(graph), graph.scalar(0.0))


def _relative(blocks: Blocks, config: T5Config, name: str, tokens: _Tokens, *, both_ways: bool) -> str:
    """[1, heads, tokens, tokens]: a number for each head and each bucket of distances.

    Distances are sorted as the exporters of T5 write it: near ones each for itself, far ones by logarithm,
    in fp32 whatever the graph's type.
    """
    graph = blocks.graph

    def whole(value: int) -> str:
        return graph.weight(f"{name}.int_{value}", np.array(value, dtype=np.int64))

    def single(value: float) -> str:
        return graph.op("Constant", value=numpy_helper.from_array(np.array(value, dtype=np.float32)))

    places = count(graph, tokens.length)
    distance = graph.op(
        "Sub",
        graph.op("Unsqueeze", places, graph.ints(0)),
        graph.op("Unsqueeze", places, graph.ints(1)),
    )
    buckets = config.buckets
    if both_ways:
        buckets //= 2
        behind = graph.op("Cast", graph.op("Greater", distance, whole(0)), to=TensorProto.INT64)
        base = graph.op("Mul", behind, whole(buckets))
        away = graph.op("Abs", distance)
    else:
        zeros = graph.op("ConstantOfShape", graph.op("Shape", distance), value=_one(0))
        graph.shaped(zeros, [tokens.known, tokens.known], TensorProto.INT64)
        away = graph.op("Neg", graph.op("Min", distance, zeros))
        base = ""
    near = buckets // 2
    share = graph.op("Div", graph.op("Cast", away, to=TensorProto.FLOAT), single(float(near)))
    steps = (buckets - near) / math.log(config.distance / near)
    far = graph.op("Cast", graph.op("Mul", graph.op("Log", share), single(steps)), to=TensorProto.INT64)
    far = graph.op("Add", far, whole(near))
    most = graph.op("ConstantOfShape", graph.op("Shape", far), value=_one(buckets - 1))
    graph.shaped(most, [tokens.known, tokens.known], TensorProto.INT64)
    is_near = graph.op("Less", away, whole(near))
    bucket = graph.op("Where", is_near, away, graph.op("Min", far, most))
    if base:
        bucket = graph.op("Add", base, bucket)
    table = graph.weight(f"{name}.relative", blocks.rng.normal(config.buckets, config.heads, scale=0.5))
    values = graph.op("Transpose", graph.op("Gather", table, bucket), perm=[2, 0, 1])
    return graph.op("Unsqueeze", values, graph.ints(0))


def _one(value: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array([value], dtype=np.int64))
