"""From a model's name and sizes in a user's words to a file and feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort

from .._shapes import Feeds, Shape, describe, make_feeds
from ..errors import OptionError, TunableOpError
from .builtin import BUILTIN, download_error


@dataclass(frozen=True)
class Subject:
    """What is measured: a model file and one run's feeds."""

    name: str  #: of the built-in, or of the file
    path: Path
    feeds: Feeds
    built_in: bool

    @property
    def shapes(self) -> str:
        """ "input_ids:1x128, ..." """
        return describe(self.feeds)


def find(
    model: str,
    folder: Path,
    *,
    shape: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    arrays: Path | None = None,
    dtype: str = "fp32",
    seed: int = 0,
) -> Subject:
    """The model file (a built-in one is built in `folder`) and its feeds.

    Args:
        model: a path, or a name of BUILTIN. A file of that name goes first.
        folder: where a built-in model goes; it must outlive the sessions.
        shape: dimensions of inputs; the built-in's or the model's own where not given.
        dims: sizes of symbolic dimensions.
        arrays: .npz or a folder of .npy files with the inputs themselves, by name.
        dtype: element type of a built-in model, "fp32" or "fp16".
        seed: of made-up inputs, and of a built-in's random weights.

    Raises:
        OptionError: no such model, input or size; a file that cannot be read.
        TunableOpError: the model does not load; its weights cannot be had.
    """
    path = Path(model)
    built_in = not path.is_file() and model in BUILTIN
    if built_in:
        path = _build(model, folder, dtype, seed)
    elif not path.is_file():
        raise OptionError(
            f"MODEL: expected a file or one of {', '.join(BUILTIN)}, found neither at '{model}'"
        )
    elif dtype != "fp32":
        raise OptionError("dtype: is for built-in models; a model file has its types already")
    given: dict[str, Shape] = {**(shape or {}), **(_arrays(arrays) if arrays is not None else {})}
    sizes = dict(dims or {})
    if built_in and not given:
        made = BUILTIN[model].feeds
        if made is not None and not sizes:
            return Subject(model, path, made(seed), True)
        sizes = {**BUILTIN[model].dims, **sizes}
    feeds = make_feeds(_plain_session(path), given or None, sizes, seed=seed)[0]
    return Subject(model if built_in else path.name, path, feeds, built_in)


def _build(name: str, folder: Path, dtype: str, seed: int) -> Path:
    model = BUILTIN[name]
    if dtype not in model.types:
        raise OptionError(f"dtype: {name} is built as {' or '.join(model.types)}, not as {dtype}")
    path = folder / f"{name}-{dtype}.onnx"
    if not path.is_file():
        try:
            model.build(path, seed, dtype)
        except OptionError:
            raise
        except download_error() as error:
            raise TunableOpError(str(error)) from error
    return path


def _plain_session(path: Path) -> ort.InferenceSession:
    """A session that is only asked for its inputs: no optimisation, one thread."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise TunableOpError(f"onnxruntime {ort.__version__} does not load '{path.name}': {error}") from error


def _arrays(path: Path) -> Feeds:
    try:
        if path.is_dir():
            found = {file.stem: np.load(file) for file in sorted(path.glob("*.npy"))}
        else:
            with np.load(path) as archive:
                found = {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise OptionError(f"inputs: cannot read '{path}': {error}") from error
    if not found:
        raise OptionError(f"inputs: expected arrays by name in '{path}', found none")
    return found
