"""Whether the rows of a model are apart, as it declares: tried, before requests share its batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from .. import _control
from .._shapes import Feeds, make_feeds
from .model import Model
from .protocol import Array, ProtocolError

logger = logging.getLogger("tunableop")

#: Sizes for what is free beside the rows: sentences run with the first, pictures may need the second.
_SIZES = (4, 32)
#: Largest difference, as a share of the largest number of an output: what another order of sums may give.
#: Dynamic quantization, whose scale all rows share, gives more, and so does looking at other rows.
_TOLERANCE: Mapping[str, float] = {"FP64": 1e-6, "FP32": 1e-3, "FP16": 2e-2}
#: For all of the trial.
_PATIENCE_SECONDS = 20.0
_SILENT = 4  # ONNX Runtime's severity: it would print each size that does not fit


def mixing(model: Model) -> str:
    """Runs two made-up rows alone and together; how the answers differ, '' if they do not. Blocks.

    '' too where it cannot be tried: text is not made up, and not every model runs with any size. Nothing of
    this is measured or counted.
    """
    axis = model.signature.batch_axis
    if axis is None:
        return ""
    mode = _control.stats(model.session).tuning if model.tunes else ""
    if mode:
        _control.set_tuning(model.session, "off")
    options = ort.RunOptions()
    options.log_severity_level = _SILENT
    # A loop may find no end with made-up numbers.
    end = threading.Timer(_PATIENCE_SECONDS, lambda: setattr(options, "terminate", True))
    end.daemon = True
    end.start()
    try:
        return _try(model, axis, options)
    except Exception as error:
        logger.debug("model '%s': rows are not tried: %s", model.name, error)
        return ""
    finally:
        end.cancel()
        if mode:
            _control.set_tuning(model.session, mode)


def _try(model: Model, axis: int, options: ort.RunOptions) -> str:
    names = list(model.signature.outputs)
    for first, second in _pairs(model, axis):
        both = {name: np.concatenate([first[name], second[name]], axis=axis) for name in first}
        try:
            alone = [model.run(feeds, names, options) for feeds in (first, second)]
        except ProtocolError as error:
            if options.terminate:
                raise
            logger.debug("model '%s': rows are not tried in these sizes: %s", model.name, error)
            continue
        try:
            together = model.run(both, names, options)
        except ProtocolError as error:
            if options.terminate:
                raise
            return f"two rows do not run together: {error}"
        return _difference(model, axis, alone, together)
    return ""


def _pairs(model: Model, axis: int) -> Iterator[tuple[Feeds, Feeds]]:
    """Two feeds of one row each, in different sizes."""
    session = model.session
    inputs = list(model.signature.inputs.values())
    symbols = {dim for slot in inputs for dim in slot.shape if isinstance(dim, str)}
    rows = inputs[0].shape[axis]
    for shapes in model.settings.warm[:1]:
        one = {
            name: [1 if at == axis else size for at, size in enumerate(shape)]
            for name, shape in shapes.items()
        }
        yield make_feeds(session, one, seed=1)[0], make_feeds(session, one, seed=2)[0]
    for size in _SIZES:
        dims = {symbol: 1 if symbol == rows else size for symbol in symbols}
        first, second = (make_feeds(session, None, dims, warn=False, seed=seed)[0] for seed in (1, 2))
        yield first, second


def _difference(model: Model, axis: int, alone: Sequence[Sequence[Array]], together: Sequence[Array]) -> str:
    for slot, whole, *parts in zip(model.signature.outputs.values(), together, *alone, strict=True):
        expected: Array = np.concatenate(parts, axis=axis)
        if whole.shape != expected.shape:
            return f"output '{slot.name}': {list(whole.shape)} together, {list(expected.shape)} alone"
        if slot.datatype not in _TOLERANCE:
            if not np.array_equal(whole, expected):
                return f"output '{slot.name}' is another one together than alone"
            continue
        far = _far(whole, expected)
        if far > _TOLERANCE[slot.datatype]:
            return f"output '{slot.name}' differs by {far:.2g} of its largest number"
    return ""


def _far(whole: Array, expected: Array) -> float:
    """The largest difference as a share of the largest number; infinity where only one is finite."""
    if expected.size == 0:
        return 0.0
    one, other = whole.astype(np.float64), expected.astype(np.float64)
    finite: Any = np.isfinite(other)
    if not np.array_equal(np.isfinite(one), finite):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.abs(other[finite]).max())
    far = float(np.abs(one[finite] - other[finite]).max())
    return far / scale if scale > 0.0 else far and float("inf")
