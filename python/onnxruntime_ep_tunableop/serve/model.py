"""One version of a model: its session, and runs on it. Everything here blocks, and belongs in a thread."""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime as ort

from .. import _control
from ..session import InferenceSession
from .cpus import thread_limit
from .metadata import Checked, Signature
from .protocol import Array, Kind, ModelMetadata, ProtocolError, Tensor
from .settings import ModelSettings

logger = logging.getLogger("tunableop")

PLATFORM = "onnxruntime_onnx"
#: ONNX Runtime's own providers for the devices that ours runs on.
_STOCK = ("CUDAExecutionProvider", "ROCMExecutionProvider", "CPUExecutionProvider")
#: Threads spin while a run lasts, and no longer: between runs they would take cores from the event loop, the
#: tuner and the next client. (Not to spin at all costs a lone caller a sixth of its requests.)
_CONFIG = {"session.force_spinning_stop": "1"}
#: A server under steady load has no idle moment: without a share of the time it would never measure.
_OPTIONS = {"tuning": "background", "background_hold_share": 0.05}
_BFLOAT16 = 16  # TensorProto.BFLOAT16


class Model:
    """A session with its signature. `run` may be called from several threads at once."""

    def __init__(self, settings: ModelSettings, version: str, path: Path, cache: Path | None) -> None:
        """Makes the session.

        Raises:
            ProtocolError: FAILED; the message says why.
        """
        self.name, self.version = settings.name, version
        self.settings = settings
        self.cache: Path | None = None
        try:
            session = self._make(settings, path, cache)
            self.signature = Signature(
                session.get_inputs(),
                session.get_outputs(),
                session.get_overridable_initializers(),
                settings.batch_axis if settings.max_batch > 1 else None,
            )
        except Exception as error:  # ONNX Runtime's have no common base
            raise ProtocolError(
                Kind.FAILED, f"model '{self.name}' version {version} cannot be loaded: {error}"
            ) from error
        self._session: ort.InferenceSession | None = session
        self.batches = self.signature.batch_axis is not None  #: whether requests may share a run
        slots = (*self.signature.inputs.values(), *self.signature.optional.values())
        #: numpy has no bfloat16: such tensors go in and out as OrtValue.
        self._bf16 = any(slot.datatype == "BF16" for slot in (*slots, *self.signature.outputs.values()))
        self._texts = frozenset(slot.name for slot in slots if slot.datatype == "BYTES")
        for name, kind in self.signature.unspeakable.items():
            logger.warning("model '%s': output '%s' is %s and is left out", self.name, name, kind)

    def _make(self, settings: ModelSettings, path: Path, cache: Path | None) -> ort.InferenceSession:
        sess_options = ort.SessionOptions()
        sess_options.intra_op_num_threads = settings.threads or thread_limit()
        for key, value in {**_CONFIG, **settings.session_config}.items():
            sess_options.add_session_config_entry(key, value)
        if settings.stock:
            there = ort.get_available_providers()
            return ort.InferenceSession(
                str(path), sess_options, providers=[name for name in _STOCK if name in there]
            )
        options = {**_OPTIONS, "cache": cache, **settings.options}
        if options["cache"] is not None:
            self.cache = Path(options["cache"]).absolute()
            self.cache.parent.mkdir(parents=True, exist_ok=True)
        return InferenceSession(path, sess_options, **options)

    @property
    def session(self) -> ort.InferenceSession:
        """The session. ProtocolError (UNAVAILABLE) after `close`."""
        if self._session is None:
            raise ProtocolError(Kind.UNAVAILABLE, f"model '{self.name}' version {self.version} was unloaded")
        return self._session

    def forbid_batches(self, why: str) -> None:
        """Before it is in service: its rows are not apart, though it declares so."""
        logger.warning(
            "model '%s' version %s: no batches, rows run together give other answers than alone: %s "
            "(check_rows=false trusts what the model declares)",
            self.name,
            self.version,
            why,
        )
        self.batches = False

    @property
    def tunes(self) -> bool:
        """Whether the session runs on this package's provider."""
        return not self.settings.stock and self._session is not None

    def metadata(self, versions: Sequence[str]) -> ModelMetadata:
        """As the protocol says it."""
        return ModelMetadata(
            name=self.name,
            versions=list(versions),
            platform=PLATFORM,
            inputs=[slot.metadata() for slot in self.signature.inputs.values()],
            outputs=[slot.metadata() for slot in self.signature.outputs.values()],
        )

    def prepare(self, checked: Checked) -> dict[str, Any]:
        """The feeds as ONNX Runtime takes them. ProtocolError (INVALID): text that is not UTF-8."""
        feeds: dict[str, Any] = dict(checked.feeds)
        for name in self._texts.intersection(feeds):
            feeds[name] = _decoded(name, feeds[name])
        return feeds

    def run(
        self, feeds: Mapping[str, Any], outputs: Sequence[str], options: ort.RunOptions | None = None
    ) -> list[Array]:
        """One run of the session.

        Raises:
            ProtocolError: INVALID where ONNX Runtime blames the arguments, else FAILED.
        """
        session = self.session
        try:
            if self._bf16:
                return self._run_values(session, feeds, outputs, options)
            return cast("list[Array]", session.run(outputs, feeds, options))
        except Exception as error:  # ONNX Runtime's have no common base
            kind = Kind.INVALID if type(error).__name__ == "InvalidArgument" else Kind.FAILED
            raise ProtocolError(kind, f"model '{self.name}' failed: {error}") from error

    def _run_values(
        self,
        session: ort.InferenceSession,
        feeds: Mapping[str, Any],
        outputs: Sequence[str],
        options: ort.RunOptions | None,
    ) -> list[Array]:
        signature = self.signature
        values = {}
        for name, array in feeds.items():
            slot = signature.inputs.get(name) or signature.optional[name]
            array = np.asarray(array, order="C")  # ascontiguousarray would give a scalar a dimension
            values[name] = (
                ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _BFLOAT16)
                if slot.datatype == "BF16"
                else ort.OrtValue.ortvalue_from_numpy(array)
            )
        results = session.run_with_ort_values(outputs, values, options)
        return [
            _bits(value) if signature.outputs[name].datatype == "BF16" else value.numpy()
            for name, value in zip(outputs, results, strict=True)
        ]

    def tensors(self, checked: Checked, arrays: Sequence[Array]) -> list[Tensor]:
        """Results in the protocol's form."""
        slots = self.signature.outputs
        return [
            Tensor(name, slots[name].datatype, _encoded(array) if slots[name].datatype == "BYTES" else array)
            for name, array in zip(checked.outputs, arrays, strict=True)
        ]

    def save(self) -> None:
        """What was learned since the last save, merged into the cache. OSError: it cannot be written."""
        if self.tunes and self.cache is not None:
            _control.save_own_cache(self.session)

    def close(self) -> None:
        """Saves, and ends the session. No run may be under way."""
        session, self._session = self._session, None
        if session is None or self.settings.stock:
            return
        try:
            _control.stop_background(session)
            if self.cache is not None:
                _control.save_own_cache(session)
        except Exception as error:
            logger.warning("model '%s': the cache was not saved: %s", self.name, error)


def _decoded(name: str, data: Array) -> Array:
    texts = np.empty(data.shape, dtype=object)
    try:
        texts.reshape(-1)[:] = [element.decode("utf-8") for element in data.flat]
    except UnicodeDecodeError as error:
        found = error.object[:32]
        raise ProtocolError(
            Kind.INVALID, f"input '{name}': expected UTF-8 (ONNX has no other text), found {found!r}"
        ) from error
    return texts


def _encoded(data: Array) -> Array:
    texts = np.empty(data.shape, dtype=object)
    texts.reshape(-1)[:] = [str(element).encode("utf-8") for element in data.flat]
    return texts


def _bits(value: ort.OrtValue) -> Array:
    """A copy of a bfloat16 tensor's bits."""
    shape = value.shape()
    result = np.empty(shape, dtype=np.uint16)
    if (count := math.prod(shape)) > 0:
        ctypes.memmove(result.ctypes.data, value.data_ptr(), 2 * count)
    return result
