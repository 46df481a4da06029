"""Blocks of a Llama-style decoder with random weights: one token with its past, or a prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from .blocks import lowest
from .graph import Dim, Graph, size_or_name
from .progress import track
from .weights import RandomWeights


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes. `kv_heads` below `heads` is grouped-query attention; `positions` bounds past + sequence."""

    layers: int = 1
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 32
    intermediate: int = 11008
    positions: int = 2048
    theta: float = 10000.0
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        """Raises ValueError when heads do not divide hidden evenly, or kv_heads do not divide heads."""
        if self.hidden % self.heads or self.heads % self.kv_heads or (self.hidden // self.heads) % 2:
            raise ValueError(
                f"hidden={self.hidden}, heads={self.heads}, kv_heads={self.kv_heads}: "
                "kv_heads must divide heads, heads must divide hidden, and a head must be of even size"
            )

    @property
    def head_size(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads


BLOCK_7B = LlamaConfig()


@dataclass(frozen=True)
class _Context:
    """What every layer needs: names of shared values, and the sizes of this build."""

    graph: Graph
    config: LlamaConfig
    rng: RandomWeights
    cos: str  # [batch, 1, sequence, head size]
    sin: str
    bias: str  # [batch, 1, sequence, past + sequence]: 0, or the lowest number where a key lies ahead
    rows: int | str
    columns: int | str
    batch: Dim
    sequence: Dim
    past: Dim
    total: Dim


def build(
    config: LlamaConfig = BLOCK_7B,
    *,
    batch: int | None = 1,
    sequence: int | None = 1,
    past: int | None = None,
    seed: int = 0,
    dtype: type[np.floating] = np.float32,
    external: Path | None = None,
) -> onnx.ModelProto:
    """A stack of blocks. Decoding is sequence=1 with a past; a prompt is past=0, which has no past inputs.

    A size that is None stays free. One block of 7B size has 809 MB of fp32 weights: give `external` (they are
    written as they are drawn, one in memory at a time). Inputs: hidden_states [batch, sequence, hidden],
    position_ids int64 [batch, sequence], and for each layer i past_key_i, past_value_i [batch, kv_heads,
    past, head size]. Outputs: last_hidden_state, and present_key_i, present_value_i [batch, kv_heads, past +
    sequence, head size].
    """
    with Graph("llama", dtype=dtype, external=external) as graph:
        context = _start(graph, config, RandomWeights(seed), batch, sequence, past)
        graph.output("last_hidden_state", [context.batch, context.sequence, config.hidden])
        state = "hidden_states"
        for layer in track(range(config.layers), "building Llama blocks"):
            state = _block(context, layer, state)
        _rms_norm(context, "norm", state, "last_hidden_state")
        return graph.model()


def decode_feed(
    config: LlamaConfig, *, batch: int = 1, sequence: int = 1, past: int = 0, seed: int = 0
) -> dict[str, NDArray[np.generic]]:
    """Inputs of that size: random states and a random past, positions that follow it."""
    rng = RandomWeights(seed + 1)
    positions = np.broadcast_to(np.arange(past, past + sequence, dtype=np.int64), (batch, sequence)).copy()
    feed: dict[str, NDArray[np.generic]] = {
        "hidden_states": rng.normal(batch, sequence, config.hidden, scale=1.0),
        "position_ids": positions,
    }
    for layer in range(config.layers if past else 0):
        for part in ("key", "value"):
            feed[f"past_{part}_{layer}"] = rng.normal(
                batch, config.kv_heads, past, config.head_size, scale=1.0
            )
    return feed


def _start(
    graph: Graph,
    config: LlamaConfig,
    rng: RandomWeights,
    batch: int | None,
    sequence: int | None,
    past: int | None,
) -> _Context:
    rows = size_or_name(batch, "batch")
    columns = size_or_name(sequence, "sequence")
    before = size_or_name(past, "past")
    fixed = isinstance(columns, int) and isinstance(before, int)
    total: Dim = int(columns) + int(before) if fixed else "total"
    states = graph.input("hidden_states", [rows, columns, config.hidden])
    positions = graph.input("position_ids", [rows, columns], TensorProto.INT64)
    inverse = config.theta ** (-np.arange(0, config.head_size, 2, dtype=np.float64) / config.head_size)
    angles = np.outer(np.arange(config.positions), np.concatenate([inverse, inverse]))
    cos, sin = (
        graph.op("Unsqueeze", graph.op("Gather", graph.weight(name, table), positions), graph.ints(1))
        for name, table in (("rotary.cos", np.cos(angles)), ("rotary.sin", np.sin(angles)))
    )
    if before != 0:
        for layer in range(config.layers):
            for part in ("key", "value"):
                graph.input(f"past_{part}_{layer}", [rows, config.kv_heads, before, config.head_size])
    # A key at place j is seen by a query at position p when j <= p.
    seen = graph.dim_of(states, 1, columns)
    if before != 0 and not fixed:
        seen_past = graph.op("Gather", graph.op("Shape", "past_key_0"), graph.ints(2), axis=0)
        seen = graph.op("Add", seen_past, graph.ints(seen) if isinstance(seen, int) else seen)
    elif fixed:
        seen = int(total)
    keys = graph.weight("places", np.arange(config.positions, dtype=np.int64))
    end = graph.ints(seen) if isinstance(seen, int) else seen
    places = graph.op("Slice", keys, graph.ints(0), end, graph.ints(0))
    ahead = graph.op("Greater", places, graph.op("Unsqueeze", positions, graph.ints(1, 3)))
    bias = graph.op("Where", ahead, lowest(graph), graph.scalar(0.0))
    return _Context(
        graph,
        config,
        rng,
        cos,
        sin,
        bias,
        graph.dim_of(states, 0, rows),
        graph.dim_of(states, 1, columns),
        rows,
        columns,
        before,
        total,
    )


def _block(c: _Context, layer: int, state: str) -> str:
    graph, config, prefix = c.graph, c.config, f"layers.{layer}"
    normed = _rms_norm(c, f"{prefix}.input_norm", state)
    attended = _linear(c, f"{prefix}.o", _attention(c, layer, normed), config.hidden, config.hidden)
    state = graph.op("Add", state, attended)
    normed = _rms_norm(c, f"{prefix}.post_norm", state)
    gate = _linear(c, f"{prefix}.gate", normed, config.hidden, config.intermediate)
    up = _linear(c, f"{prefix}.up", normed, config.hidden, config.intermediate)
    wide = graph.op("Mul", graph.op("Mul", gate, graph.op("Sigmoid", gate)), up)
    return graph.op("Add", state, _linear(c, f"{prefix}.down", wide, config.intermediate, config.hidden))


def _attention(c: _Context, layer: int, x: str) -> str:
    graph, config, size = c.graph, c.config, c.config.head_size

    def heads(part: str, count: int) -> str:
        flat = _linear(c, f"layers.{layer}.{part}", x, config.hidden, count * size)
        split = graph.op("Reshape", flat, graph.dims(c.rows, c.columns, count, size))
        return graph.op("Transpose", split, perm=[0, 2, 1, 3])

    query = _rotate(c, heads("q", config.heads))
    key = _remember(c, f"key_{layer}", _rotate(c, heads("k", config.kv_heads)))
    value = _remember(c, f"value_{layer}", heads("v", config.kv_heads))
    turned = graph.op("Transpose", _repeat(c, key), perm=[0, 1, 3, 2])
    scores = graph.op("Div", graph.op("MatMul", query, turned), graph.scalar(math.sqrt(size)))
    chances = graph.op("Softmax", graph.op("Add", scores, c.bias), axis=-1)
    mixed = graph.op("Transpose", graph.op("MatMul", chances, _repeat(c, value)), perm=[0, 2, 1, 3])
    return graph.op("Reshape", mixed, graph.dims(c.rows, c.columns, config.hidden))


def _rotate(c: _Context, x: str) -> str:
    """Rotary positions: x * cos + (second half negated, then the first) * sin."""
    graph, half = c.graph, c.config.head_size // 2
    first = graph.op("Slice", x, graph.ints(0), graph.ints(half), graph.ints(3))
    second = graph.op("Slice", x, graph.ints(half), graph.ints(2 * half), graph.ints(3))
    turned = graph.op("Concat", graph.op("Neg", second), first, axis=-1)
    return graph.op("Add", graph.op("Mul", x, c.cos), graph.op("Mul", turned, c.sin))


def _remember(c: _Context, name: str, x: str) -> str:
    """Appends to the past, and hands the whole out as the present."""
    if c.past == 0:
        present = c.graph.op("Identity", x, name=f"present_{name}")
    else:
        present = c.graph.op("Concat", f"past_{name}", x, axis=2, name=f"present_{name}")
    c.graph.output(present, [c.batch, c.config.kv_heads, c.total, c.config.head_size])
    return present


def _repeat(c: _Context, x: str) -> str:
    """[batch, kv_heads, n, size] -> [batch, heads, n, size], each head repeated for its group."""
    graph, config = c.graph, c.config
    group = config.heads // config.kv_heads
    if group == 1:
        return x
    copies = graph.op("Expand", graph.op("Unsqueeze", x, graph.ints(2)), graph.ints(1, 1, group, 1, 1))
    return graph.op("Reshape", copies, graph.dims(c.rows, config.heads, -1, config.head_size))


def _linear(c: _Context, name: str, x: str, inside: int, outside: int) -> str:
    # 1 / sqrt(inside) keeps the size of the activations from layer to layer.
    weight = c.rng.normal(inside, outside, scale=inside**-0.5)
    return c.graph.op("MatMul", x, c.graph.weight(f"{name}.weight", weight))


def _rms_norm(c: _Context, name: str, x: str, output: str = "") -> str:
    graph = c.graph
    gain = graph.weight(f"{name}.weight", c.rng.near_one(c.config.hidden))
    mean = graph.op("ReduceMean", graph.op("Pow", x, graph.scalar(2.0)), axes=[-1], keepdims=1)
    root = graph.op("Sqrt", graph.op("Add", mean, graph.scalar(c.config.epsilon)))
    return graph.op("Mul", gain, graph.op("Mul", x, graph.op("Reciprocal", root)), name=output)
