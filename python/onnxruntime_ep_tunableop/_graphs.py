"""Which captured graph serves which run: numbers, buffers on the card, and room for both.

ONNX Runtime replays a graph by its number and looks at nothing else: other shapes or buffers than those of
the capture give wrong answers without a word. So each combination of input shapes and types, and of outputs
that are asked for, has a number of its own here, with buffers on the card that no other run uses: inputs are
copied in, the graph runs, outputs are copied out.

The first run of a combination is an ordinary one, which tells the shapes of its outputs; the second captures.
Runs of one combination take turns.
"""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from . import _control, _core
from ._devices import Listed
from ._library import get_library_path

#: ONNX Runtime's words where it makes no session for want of graphs, and the reason after it.
_REFUSAL = "cannot use the graph capture feature as requested by the user"

Array = npt.NDArray[Any]
Key = tuple[Any, ...]

_VENDORS = {"cuda": 0x10DE, "hip": 0x1002}
#: Below are numbers that callers may use themselves.
_FIRST_NUMBER = 1 << 24
#: Failures of a combination's runs that are forgiven: memory may be short for a moment.
_FORGIVEN = 2
#: Combinations that are remembered, for each graph that may be alive.
_REMEMBERED = 64
#: Types of elements as numpy has them; others (strings, objects) are no card's.
_KINDS = "biuf"


def refusal(error: Exception) -> str:
    """Why ONNX Runtime captures no graphs of a model, or of its split over providers; "": another error."""
    return " ".join(str(error).partition(_REFUSAL)[2].split()).removeprefix("as ")


def is_numbered(run_options: ort.RunOptions | None) -> bool:
    """Whether these options name a graph."""
    if run_options is None:
        return False
    try:
        return int(run_options.get_run_config_entry("gpu_graph_id")) > 0
    except (RuntimeError, ValueError):  # not set, or no number
        return False


@dataclass(frozen=True)
class Memory:
    """A card's memory, as `ort.OrtValue` is told of it."""

    card: Listed

    def value(self, shape: Sequence[int], dtype: Any) -> ort.OrtValue:
        """A tensor there, with anything in it."""
        make = ort.OrtValue.ortvalue_from_shape_and_type
        if "memory_info" in inspect.signature(make).parameters:
            # Exactly ours, also where onnxruntime has a provider of its own for the card.
            info = self.card.ep_device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
            return make(list(shape), dtype, memory_info=info)
        vendor = _VENDORS[self.card.backend]
        return make(list(shape), dtype, "gpu", self.card.ordinal, vendor)


@dataclass
class Buffers:
    """One number, and what is bound to it. Used by who holds the lock."""

    number: int
    inputs: dict[str, ort.OrtValue]
    outputs: list[ort.OrtValue]
    shapes: list[tuple[tuple[int, ...], Any]]  #: of the outputs
    binding: ort.IOBinding
    options: ort.RunOptions
    call: _core.GraphCall
    own_bytes: int = 0  #: of the buffers
    bytes: int = 0  #: and of what the graph has on the card
    lock: threading.Lock = field(default_factory=threading.Lock)
    captured: bool = False
    closed: bool = False


@dataclass
class Known:
    """What is known of a combination."""

    outputs: list[tuple[tuple[int, ...], Any]]
    without: str = ""  #: why it has no graph and will have none; empty: it may
    failures: int = 0


class Graphs:
    """The graphs of one session. Thread-safe.

    Does not hold the session, which holds this; so `session` is an argument.
    """

    def __init__(self, session: ort.InferenceSession, memory: Memory) -> None:
        settings = _control.graph_settings(session)
        self._most = settings["max_graphs"]
        self._most_bytes = settings["graph_memory"]
        self._memory = memory
        self._names = tuple(entry.name for entry in session.get_inputs())
        self._all_outputs = tuple(entry.name for entry in session.get_outputs())
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, Known] = OrderedDict()
        self._alive: OrderedDict[Key, Buffers] = OrderedDict()
        self._last_number = _FIRST_NUMBER

    def run(
        self, session: ort.InferenceSession, output_names: Sequence[str] | None, feeds: dict[str, Any]
    ) -> list[Array] | None:
        """The outputs; None: this run is one for ONNX Runtime, and then for `learn`."""
        arrays = self._arrays(feeds)
        if arrays is None:
            return None
        names = tuple(output_names) if output_names else self._all_outputs
        key = self._key(names, arrays)
        with self._lock:
            known = self._known.get(key)
            if known is None or known.without:
                return None
            self._known.move_to_end(key)
            buffers = self._alive.get(key)
            if buffers is not None:
                self._alive.move_to_end(key)
        if buffers is None:
            buffers = self._make(session, key, names, arrays, known)
        if buffers is None:
            return None
        with buffers.lock:
            if buffers.closed:
                return None
            try:
                return self._run(session, key, buffers, arrays)
            except Exception as error:
                reason = f"a run for its graph failed: {error}"
        # Without a graph it may succeed, or else says what is wrong with it.
        self._fail(session, key, buffers, reason)
        return None

    def learn(
        self, output_names: Sequence[str] | None, feeds: dict[str, Any], results: Sequence[Any]
    ) -> None:
        """After a run by ONNX Runtime: what its outputs look like."""
        arrays = self._arrays(feeds)
        if arrays is None:
            return
        names = tuple(output_names) if output_names else self._all_outputs
        key = self._key(names, arrays)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return
        plain = all(isinstance(result, np.ndarray) and result.dtype.kind in _KINDS for result in results)
        without = "" if plain else "an output is no tensor of numbers"
        if plain and any(result.size == 0 for result in results):
            without = "an output has no elements"
        if len(set(names)) < len(names):
            without = "an output is asked for twice"
        known = Known([(result.shape, result.dtype) for result in results] if plain else [], without)
        with self._lock:
            self._known.setdefault(key, known)
            while len(self._known) > _REMEMBERED * self._most:
                del self._known[next(key for key in self._known if key not in self._alive)]

    def _arrays(self, feeds: dict[str, Any]) -> list[Array] | None:
        """One for each input, in their order; None: they are not all plain arrays with elements."""
        if len(feeds) != len(self._names):
            return None
        arrays: list[Array] = []
        for name in self._names:
            array = feeds.get(name)
            if not isinstance(array, np.ndarray) or array.dtype.kind not in _KINDS or array.size == 0:
                return None
            if not array.dtype.isnative:
                return None
            arrays.append(array)
        return arrays

    @staticmethod
    def _key(names: tuple[str, ...], arrays: list[Array]) -> Key:
        return (names, *((array.shape, array.dtype.char) for array in arrays))

    def _make(
        self,
        session: ort.InferenceSession,
        key: Key,
        names: tuple[str, ...],
        arrays: list[Array],
        known: Known,
    ) -> Buffers | None:
        """New buffers; None: there is no room. Of two threads the first to come decides."""
        size = sum(array.nbytes for array in arrays)
        size += sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in known.outputs)
        if size > self._most_bytes:
            self._refuse(session, key, "its inputs and outputs are more than graph_memory allows")
            return None
        with self._lock:
            self._last_number += 1
            number = self._last_number
        self._make_room(session, graphs=1, size=size)
        try:
            made = self._bind(session, number, names, arrays, known)
        except Exception as error:
            self._fail(session, key, None, f"its inputs and outputs cannot be bound: {error}")
            return None
        made.bytes = made.own_bytes = size
        with self._lock:
            return self._alive.setdefault(key, made)

    def _bind(
        self,
        session: ort.InferenceSession,
        number: int,
        names: tuple[str, ...],
        arrays: list[Array],
        known: Known,
    ) -> Buffers:
        inputs = {
            name: self._memory.value(array.shape, array.dtype)
            for name, array in zip(self._names, arrays, strict=True)
        }
        outputs = [self._memory.value(shape, dtype) for shape, dtype in known.outputs]
        binding = ort.IOBinding(session)
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in zip(names, outputs, strict=True):
            binding.bind_ortvalue_output(name, value)
        options = ort.RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(number))
        call = _core.GraphCall(
            get_library_path(),
            _control.token_of(session),
            number,
            [value.data_ptr() for value in inputs.values()],
            [value.data_ptr() for value in outputs],
        )
        return Buffers(number, inputs, outputs, known.outputs, binding, options, call)

    def _run(
        self, session: ort.InferenceSession, key: Key, buffers: Buffers, arrays: list[Array]
    ) -> list[Array]:
        # Not of all: a scalar would get a dimension.
        arrays = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays]
        results = [np.empty(shape, dtype) for shape, dtype in buffers.shapes]
        if buffers.captured and buffers.call.run(arrays, results):
            return results
        for value, array in zip(buffers.inputs.values(), arrays, strict=True):
            value.update_inplace(array)
        # Not this package's own method: what is bound here is on the card, and fresh.
        ort.InferenceSession.run_with_iobinding(session, buffers.binding, buffers.options)
        results = [np.asarray(value.numpy()) for value in buffers.outputs]
        view = _control.graph_view(session, buffers.number)
        buffers.captured = view["captured"]
        if view["refused"]:
            self._refuse(session, key, view["refused"])
        elif buffers.captured:
            buffers.bytes = buffers.own_bytes + view["bytes"]
            self._make_room(session, but=key)
        if buffers.closed:  # while it ran, which has captured it again
            _control.release_graph(session, buffers.number, for_room=False)
        return results

    def _refuse(self, session: ort.InferenceSession, key: Key, why: str) -> None:
        """There will be no graph for this combination."""
        with self._lock:
            buffers = self._alive.pop(key, None)
            if key in self._known:
                self._known[key].without = why
        _control.note_graphs(session, f"runs of some shapes have no graph: {why}")
        if buffers is not None:
            self._close(session, buffers)

    def _fail(self, session: ort.InferenceSession, key: Key, buffers: Buffers | None, why: str) -> None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                known.failures += 1
            if buffers is not None and self._alive.get(key) is buffers:
                del self._alive[key]
        if buffers is not None:
            self._close(session, buffers)
        if known is not None and known.failures > _FORGIVEN:
            self._refuse(session, key, why)

    def _make_room(
        self, session: ort.InferenceSession, graphs: int = 0, size: int = 0, but: Key | None = None
    ) -> None:
        """For so many more graphs with so many more bytes; the least recently used go."""
        while True:
            with self._lock:
                total = sum(buffers.bytes for buffers in self._alive.values()) + size
                if len(self._alive) + graphs <= self._most and total <= self._most_bytes:
                    return
                oldest = next((key for key in self._alive if key != but), None)
                if oldest is None:
                    return
                buffers = self._alive.pop(oldest)
            self._close(session, buffers, for_room=True)

    @staticmethod
    def _close(session: ort.InferenceSession, buffers: Buffers, for_room: bool = False) -> None:
        """It may be running: then its run ends as it would, and the buffers live as long."""
        buffers.closed = True
        _control.release_graph(session, buffers.number, for_room)
