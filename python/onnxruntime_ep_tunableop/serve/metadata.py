"""What a session says of its inputs and outputs, in the protocol's words, and requests checked against it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .protocol import DATATYPES, Array, InferRequest, Kind, ProtocolError, Tensor, TensorMetadata

#: ONNX Runtime's words for types, and the protocol's.
_DATATYPES: Mapping[str, str] = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(bfloat16)": "BF16",
    "tensor(string)": "BYTES",
}


@dataclass(frozen=True)
class Slot:
    """An input or output of a model."""

    name: str
    datatype: str
    #: A size, a symbol, or None for free. ONNX Runtime shows an unknown rank as (): then any shape goes.
    shape: tuple[int | str | None, ...]

    def metadata(self) -> TensorMetadata:
        """As the protocol says it."""
        shape = [dim if isinstance(dim, int) else -1 for dim in self.shape]
        return TensorMetadata(self.name, self.datatype, shape)


@dataclass(frozen=True)
class Checked:
    """A request that fits the model."""

    feeds: Mapping[str, Array]  #: every input of the model, in its order
    outputs: tuple[str, ...]  #: names
    rows: int  #: along the batch axis; 0: it runs alone
    key: Hashable  #: requests with equal keys may share a batch


class Signature:
    """Inputs and outputs of a model. Immutable."""

    def __init__(
        self, inputs: Sequence[Any], outputs: Sequence[Any], optional: Sequence[Any], batch_axis: int | None
    ) -> None:
        """From what a session says (`get_inputs`, `get_outputs`, `get_overridable_initializers`).

        Raises:
            ProtocolError: an input is of a type that the protocol does not carry.
        """
        for entry in inputs:
            if entry.type not in _DATATYPES:
                raise ProtocolError(
                    Kind.FAILED, f"input '{entry.name}' is {entry.type}, which the protocol cannot carry"
                )
        self.inputs = {entry.name: _slot(entry) for entry in inputs}
        self.outputs = {entry.name: _slot(entry) for entry in outputs if entry.type in _DATATYPES}
        #: Outputs that cannot be asked for: sequences, maps, types of a few bits.
        self.unspeakable = {
            entry.name: str(entry.type) for entry in outputs if entry.name not in self.outputs
        }
        #: Inputs with a value of the model's own for when they are not given.
        self.optional = {entry.name: _slot(entry) for entry in optional if entry.type in _DATATYPES}
        if not self.outputs:
            found = ", ".join(f"'{name}' is {kind}" for name, kind in self.unspeakable.items())
            raise ProtocolError(
                Kind.FAILED, f"it has no output that the protocol can carry: {found or 'none at all'}"
            )
        self.batch_axis, self.why_no_batches = self._find_axis(batch_axis)
        self._all = tuple(self.outputs)

    def _find_axis(self, axis: int | None) -> tuple[int | None, str]:
        """The axis, if every input and output has the same symbol there, and only there; else why not."""
        if axis is None:
            return None, "it was switched off"
        symbols: set[int | str | None] = set()
        if not self.inputs:
            return None, "there are no inputs"
        if self.unspeakable:
            return None, f"output '{next(iter(self.unspeakable))}' is no tensor that can be cut"
        for what, slots in (("input", self.inputs), ("output", self.outputs)):
            for slot in slots.values():
                dim = slot.shape[axis] if axis < len(slot.shape) else None
                if not isinstance(dim, str):
                    return None, f"dimension {axis} of {what} '{slot.name}' is not declared free with a name"
                if slot.shape.count(dim) > 1:
                    return None, f"'{dim}' stands more than once in the shape of {what} '{slot.name}'"
                symbols.add(dim)
        if len(symbols) > 1:
            names = ", ".join(f"'{symbol}'" for symbol in sorted(map(str, symbols)))
            return None, f"dimension {axis} has several names: {names}"
        return axis, ""

    def check(self, request: InferRequest) -> Checked:
        """Raises ProtocolError (INVALID) that says what was expected and what was found."""
        given: dict[str, Array] = {}
        symbols: dict[str, tuple[int, str]] = {}
        for tensor in request.inputs:
            slot = self.inputs.get(tensor.name) or self.optional.get(tensor.name)
            if slot is None:
                names = ", ".join((*self.inputs, *self.optional)) or "none"
                raise _wrong(f"there is no input '{tensor.name}'; the inputs are: {names}")
            if tensor.name in given:
                raise _wrong(f"input '{tensor.name}': expected once, found twice")
            _check_tensor(slot, tensor, symbols)
            given[tensor.name] = tensor.data
        if len(given) < len(self.inputs) or not self.inputs.keys() <= given.keys():
            missing = ", ".join(f"'{name}'" for name in self.inputs if name not in given)
            raise _wrong(f"expected inputs {', '.join(self.inputs)}; missing: {missing}")
        outputs = self._outputs(request) if request.outputs else self._all
        if self.batch_axis is None or len(given) > len(self.inputs):
            return Checked(given, outputs, 0, None)
        axis = self.batch_axis
        feeds = {name: given[name] for name in self.inputs}
        shapes = [array.shape for array in feeds.values()]
        key = (outputs, *((shape[:axis], shape[axis + 1 :]) for shape in shapes))
        return Checked(feeds, outputs, shapes[0][axis], key)

    def _outputs(self, request: InferRequest) -> tuple[str, ...]:
        names = tuple(output.name for output in request.outputs)
        for name in names:
            if name in self.unspeakable:
                raise _wrong(f"output '{name}' is {self.unspeakable[name]}, which the protocol cannot carry")
            if name not in self.outputs:
                raise _wrong(f"there is no output '{name}'; the outputs are: {', '.join(self.outputs)}")
        if len(set(names)) < len(names):
            raise _wrong(f"expected each output once, found {', '.join(names)}")
        return names


def _slot(entry: Any) -> Slot:
    shape = tuple(
        dim if isinstance(dim, str) and dim else dim if isinstance(dim, int) and dim >= 0 else None
        for dim in entry.shape
    )
    return Slot(str(entry.name), _DATATYPES[entry.type], shape)


def _check_tensor(slot: Slot, tensor: Tensor, symbols: dict[str, tuple[int, str]]) -> None:
    if tensor.datatype != slot.datatype:
        raise _wrong(f"input '{slot.name}': expected {slot.datatype}, found {tensor.datatype}")
    data = tensor.data
    if data.dtype != DATATYPES[slot.datatype]:
        raise _wrong(
            f"input '{slot.name}': expected data of {DATATYPES[slot.datatype]} for {slot.datatype}, "
            f"found {data.dtype}"
        )
    shape = data.shape
    if len(shape) != len(slot.shape):
        if slot.shape:
            raise _wrong(
                f"input '{slot.name}': expected {len(slot.shape)} dimensions {_text(slot.shape)}, "
                f"found {len(shape)} {_text(shape)}"
            )
        return
    for at, (dim, size) in enumerate(zip(slot.shape, shape, strict=True)):
        if isinstance(dim, int):
            if dim != size:
                raise _wrong(f"input '{slot.name}': expected {_text(slot.shape)}, found {_text(shape)}")
        elif dim is not None:
            before, where = symbols.setdefault(dim, (size, f"dimension {at} of '{slot.name}'"))
            if before != size:
                raise _wrong(
                    f"input '{slot.name}': expected '{dim}' to be {before} as in {where}, "
                    f"found {size} in {_text(shape)}"
                )


def _text(shape: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def _wrong(message: str) -> ProtocolError:
    return ProtocolError(Kind.INVALID, message)
