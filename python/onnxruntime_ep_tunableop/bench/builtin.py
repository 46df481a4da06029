"""The models that `tunableop bench` builds itself, for who has none at hand."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import OptionError

Feeds = dict[str, npt.NDArray[Any]]

_PAST = 511  # tokens before the one that the Llama block decodes


@dataclass(frozen=True)
class Builtin:
    """A model by name."""

    name: str
    what: str
    build: Callable[[Path, int, str], None]  #: file, seed of the weights, element type (fp32 or fp16)
    dims: Mapping[str, int]  #: sizes of its free dimensions, unless told
    types: tuple[str, ...] = ("fp32", "fp16")
    feeds: Callable[[int], Feeds] | None = None  #: where made-up numbers would not do


def _models(module: str) -> Any:
    """A module of the builders, which need the package onnx."""
    if importlib.util.find_spec("onnx") is None:
        raise OptionError(
            "building a model needs the package onnx: pip install 'onnxruntime-ep-tunableop[bench]' (with "
            "onnxruntime-gpu or another build: pip install onnx rich), or give a model file"
        )
    # By its name in the wheel: type checkers see the builders as a package of their own.
    return importlib.import_module(f"{__package__.rpartition('.')[0]}.models.{module}")


def _dtype(name: str) -> type[np.floating[Any]]:
    return np.float16 if name == "fp16" else np.float32


def _minilm(out: Path, seed: int, dtype: str) -> None:
    _models("graph").save(_models("minilm").build(), out)


def _bert(out: Path, seed: int, dtype: str) -> None:
    graph = _models("graph")
    model = _models("bert").build(seed=seed, dtype=_dtype(dtype), external=graph.external_path(out))
    graph.save(model, out)


def _llama(out: Path, seed: int, dtype: str) -> None:
    graph = _models("graph")
    model = _models("llama").build(
        sequence=1, past=_PAST, seed=seed, dtype=_dtype(dtype), external=graph.external_path(out)
    )
    graph.save(model, out)


def _llama_feeds(seed: int) -> Feeds:
    llama = _models("llama")
    return dict(llama.decode_feed(llama.BLOCK_7B, past=_PAST, seed=seed))


def _mlp(out: Path, seed: int, dtype: str) -> None:
    _models("graph").save(_models("mlp").build(seed=seed, dtype=_dtype(dtype)), out)


BUILTIN: Mapping[str, Builtin] = {
    model.name: model
    for model in (
        Builtin(
            "minilm",
            "all-MiniLM-L6-v2, real weights (downloads 84 MB once)",
            _minilm,
            {"batch": 1, "sequence": 128},
            types=("fp32",),
        ),
        Builtin("bert", "BERT-base, random weights", _bert, {"batch": 16, "sequence": 128}),
        Builtin(
            "llama-block",
            "one block of Llama-7B decoding a token after 511 others, random weights",
            _llama,
            {},
            feeds=_llama_feeds,
        ),
        Builtin("mlp", "a perceptron of three layers, random weights", _mlp, {"batch": 64}),
    )
}


def download_error() -> type[Exception]:
    """What building raises when pinned weights cannot be had; its text says what to do."""
    error: type[Exception] = _models("fetch").FetchError
    return error
