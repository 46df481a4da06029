"""Batches of requests on a model, in its threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from .metadata import Checked
from .model import Model
from .protocol import Array, Kind, ProtocolError, Tensor
from .workers import Workers

logger = logging.getLogger("tunableop")

Outcome = Sequence[Tensor] | BaseException

#: So many batches must fail, in a row, whose requests all run well one by one, until no more are made.
_PATIENCE = 3


class _NotCuttableError(Exception):
    """Results of a batch do not have a part for each request."""


class Runner:
    """Concatenates along the batch axis, runs, and cuts. Nothing is padded.

    What fails together is run again one by one, so that a request fails only for its own sake.
    """

    def __init__(self, model: Model, workers: Workers, on_split: Callable[[], None]) -> None:
        """`on_split` is called in a thread when the requests of a batch have to be run one by one."""
        self._model = model
        self._workers = workers
        self._on_split = on_split
        self._axis = model.signature.batch_axis or 0
        self._failed_together = 0
        #: False: the model declares that rows are apart, but they are not. No batches then.
        self.together = model.batches

    def start(self, items: Sequence[Checked]) -> tuple[asyncio.Future[Sequence[Outcome]], Callable[[], None]]:
        """The outcomes, and what stops the run early (which then fails)."""
        options = ort.RunOptions()
        return self._workers.submit(self.run, items, options), lambda: _stop(options)

    def run(self, items: Sequence[Checked], options: ort.RunOptions) -> Sequence[Outcome]:
        """One outcome for each item. Blocks."""
        if len(items) == 1:
            return [self._single(items[0], options)]
        try:
            return self._joined(items, options)
        except Exception as error:
            if options.terminate:
                return [error] * len(items)
            self._on_split()
            outcomes = [self._single(item, options) for item in items]
            self._learn(error, outcomes)
            return outcomes

    def _single(self, item: Checked, options: ort.RunOptions) -> Outcome:
        try:
            if options.terminate:
                raise ProtocolError(Kind.UNAVAILABLE, "the run was stopped")
            model = self._model
            return model.tensors(item, model.run(model.prepare(item), item.outputs, options))
        except ProtocolError as error:
            return error.with_traceback(None)  # whose frames hold tensors
        except Exception as error:
            return ProtocolError(Kind.FAILED, f"model '{self._model.name}' failed: {error}")

    def _joined(self, items: Sequence[Checked], options: ort.RunOptions) -> list[Outcome]:
        model, axis = self._model, self._axis
        prepared = [model.prepare(item) for item in items]
        feeds: dict[str, Any] = {
            name: np.concatenate([feed[name] for feed in prepared], axis=axis) for name in prepared[0]
        }
        arrays = model.run(feeds, items[0].outputs, options)
        rows = sum(item.rows for item in items)
        for name, array in zip(items[0].outputs, arrays, strict=True):
            if array.ndim <= axis or array.shape[axis] != rows:
                raise _NotCuttableError(
                    f"output '{name}': expected {rows} rows in dimension {axis}, found {list(array.shape)}"
                )
        outcomes: list[Outcome] = []
        first = 0
        for item in items:
            parts = [_part(array, axis, first, first + item.rows) for array in arrays]
            outcomes.append(model.tensors(item, parts))
            first += item.rows
        self._failed_together = 0
        return outcomes

    def _learn(self, error: Exception, outcomes: Sequence[Outcome]) -> None:
        """Whether the batch failed because it was one."""
        if any(isinstance(outcome, BaseException) for outcome in outcomes):
            return
        self._failed_together += 1
        if isinstance(error, _NotCuttableError) or self._failed_together >= _PATIENCE:
            self.together = False
            logger.warning(
                "model '%s' version %s: no more batches, requests run well only one by one: %s",
                self._model.name,
                self._model.version,
                error,
            )


def _part(array: Array, axis: int, first: int, end: int) -> Array:
    return np.ascontiguousarray(array[(slice(None),) * axis + (slice(first, end),)])


def _stop(options: ort.RunOptions) -> None:
    options.terminate = True
