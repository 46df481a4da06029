"""A ViT-style encoder of images with random weights: patches by a convolution, a class token, layers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from .blocks import Blocks, gelu
from .graph import Graph, size_or_name
from .weights import RandomWeights


@dataclass(frozen=True)
class VitConfig:
    """Sizes. `image` and `patch` are of a square's side."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int = 3072
    image: int = 224
    patch: int = 16
    channels: int = 3
    classes: int = 1000
    epsilon: float = 1e-12

    def __post_init__(self) -> None:
        """Raises ValueError when heads do not divide hidden, or patches the image."""
        if self.hidden % self.heads or self.image % self.patch:
            raise ValueError(
                f"hidden={self.hidden}, heads={self.heads}, image={self.image}, patch={self.patch}: "
                "heads must divide hidden, and patch must divide image"
            )


BASE = VitConfig()


def build(
    config: VitConfig = BASE,
    *,
    batch: int | None = None,
    seed: int = 0,
    dtype: type[np.floating] = np.float32,
    external: Path | None = None,
) -> onnx.ModelProto:
    """The model; a batch that is None stays free.

    Input: pixel_values [batch, channels, image, image]. Output: logits [batch, classes].
    """
    rows = size_or_name(batch, "batch")
    hidden, size = config.hidden, config.hidden // config.heads
    side = config.image // config.patch
    tokens = side * side + 1
    with Graph("vit", dtype=dtype, external=external) as graph:
        blocks = Blocks(graph, RandomWeights(seed))
        pixels = graph.input("pixel_values", [rows, config.channels, config.image, config.image])
        number = graph.dim_of(pixels, 0, rows)
        inside = config.channels * config.patch**2
        filters = blocks.rng.normal(hidden, config.channels, config.patch, config.patch, scale=inside**-0.5)
        patches = graph.op(
            "Conv",
            pixels,
            graph.weight("patches.weight", filters),
            graph.weight("patches.bias", blocks.rng.normal(hidden, scale=0.02)),
            kernel_shape=[config.patch] * 2,
            strides=[config.patch] * 2,
        )
        flat = graph.op("Reshape", patches, graph.dims(number, hidden, tokens - 1))
        state = graph.op("Transpose", flat, perm=[0, 2, 1])
        token = graph.weight("class_token", blocks.rng.normal(1, 1, hidden, scale=0.02))
        state = graph.op("Concat", graph.op("Expand", token, graph.dims(number, 1, hidden)), state, axis=1)
        places = graph.weight("positions", blocks.rng.normal(1, tokens, hidden, scale=0.02))
        state = graph.op("Add", state, places)
        merged = graph.dims(number, tokens, hidden)
        root = graph.scalar(size**0.5)
        for layer in range(config.layers):
            prefix = f"layers.{layer}"
            normed = blocks.layer_norm(f"{prefix}.before", state, hidden, epsilon=config.epsilon)
            query, key, value = (
                blocks.split_heads(
                    blocks.linear(f"{prefix}.{part}", normed, hidden, hidden),
                    number,
                    tokens,
                    config.heads,
                    size,
                    *order,
                )
                for part, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3)))
            )
            mixed = blocks.attend(query, key, value, merged, root=root)
            state = graph.op("Add", blocks.linear(f"{prefix}.o", mixed, hidden, hidden), state)
            normed = blocks.layer_norm(f"{prefix}.after", state, hidden, epsilon=config.epsilon)
            wide = gelu(graph, blocks.linear(f"{prefix}.up", normed, hidden, config.intermediate))
            narrow = blocks.linear(f"{prefix}.down", wide, config.intermediate, hidden)
            state = graph.op("Add", narrow, state)
        state = blocks.layer_norm("norm", state, hidden, epsilon=config.epsilon)
        first = graph.op("Gather", state, graph.weight("first", np.array(0, dtype=np.int64)), axis=1)
        logits = graph.op(
            "Gemm",
            first,
            graph.weight("classifier.weight", blocks.rng.normal(config.classes, hidden, scale=hidden**-0.5)),
            graph.weight("classifier.bias", blocks.rng.normal(config.classes, scale=0.02)),
            name="logits",
            transB=1,
        )
        graph.output(logits, [rows, config.classes])
        return graph.model()
