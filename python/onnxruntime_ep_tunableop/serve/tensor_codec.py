"""Tensors from and to what travels: raw bytes and lists of values. Nothing here trusts its input.

Every size is checked against the shape before an array of that shape is made; errors are
ProtocolError(INVALID).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from .protocol import DATATYPES, Array, Kind, ProtocolError

#: numpy 1 has no arrays of more; ONNX models do not come near it.
MAX_RANK = 32
MAX_DIMENSION = 2**31 - 1

_FLOATS = ("FP16", "FP32", "FP64", "BF16")
_BF16_INFINITY = 0x7F80
_ALLOWED: dict[str, set[type]] = {"BOOL": {bool}, "BYTES": {str, bytes}}


def invalid(message: str) -> ProtocolError:
    """The request is wrong."""
    return ProtocolError(Kind.INVALID, message)


def checked_datatype(name: str, datatype: object) -> str:
    """A type of the protocol."""
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise invalid(
            f"tensor '{name}': expected a datatype of {', '.join(DATATYPES)}, found {short(datatype)}"
        )
    return datatype


def checked_shape(name: str, shape: object) -> tuple[int, ...]:
    """Whole numbers that are not negative, not too many."""
    if not isinstance(shape, list | tuple) or len(shape) > MAX_RANK:
        raise invalid(
            f"tensor '{name}': expected a shape of at most {MAX_RANK} dimensions, found {short(shape)}"
        )
    for size in shape:
        if type(size) is not int or not 0 <= size <= MAX_DIMENSION:
            raise invalid(
                f"tensor '{name}': expected dimensions from 0 to {MAX_DIMENSION}, "
                f"found {short(size)} in its shape"
            )
    return tuple(shape)


def count_of(shape: Sequence[int]) -> int:
    """How many elements; Python's whole numbers do not overflow."""
    count = 1
    for size in shape:
        count *= size
    return count


def short(value: object) -> str:
    """What the client sent, in an error: never the whole of it."""
    # The length of a list or string is looked at first: repr of a large one takes as long as it is large.
    if isinstance(value, str):
        return repr(value[:60]) + ("..." if len(value) > 60 else "")
    if isinstance(value, list | tuple | dict):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    return repr(value)


def from_raw(name: str, datatype: str, shape: tuple[int, ...], raw: memoryview) -> Array:
    """From the binary form: little endian, C order; BYTES as lengths of 4 bytes, each before its bytes.

    The array may look into `raw` and then cannot be written to.
    """
    count = count_of(shape)
    if datatype == "BYTES":
        return reshaped(name, _split(name, count, raw), shape)
    kind = DATATYPES[datatype]
    if len(raw) != count * kind.itemsize:
        raise invalid(
            f"tensor '{name}': expected {count * kind.itemsize} bytes of {datatype} {list(shape)}, "
            f"found {len(raw)}"
        )
    array = np.frombuffer(raw, dtype=kind.newbyteorder("<")) if count else np.empty(0, dtype=kind)
    if datatype == "BOOL" and count and int(array.view(np.uint8).max()) > 1:
        raise invalid(f"tensor '{name}': expected bytes 0 and 1 of BOOL, found another")
    if not array.flags.aligned or not array.dtype.isnative:
        array = array.astype(kind)
    return reshaped(name, array, shape)


def to_raw(datatype: str, data: Array) -> bytes:
    """The binary form."""
    if datatype != "BYTES":
        return np.ascontiguousarray(data).astype(DATATYPES[datatype].newbyteorder("<"), copy=False).tobytes()
    parts: list[bytes] = []
    for value in data.ravel():
        parts += (struct.pack("<I", len(value)), value)
    return b"".join(parts)


def from_values(name: str, datatype: str, shape: tuple[int, ...], values: object) -> Array:
    """From JSON's values, flat or nested as the shape says."""
    flat = _flat(name, shape, values)
    return reshaped(name, _array(name, datatype, flat), shape)


def from_typed(name: str, datatype: str, shape: tuple[int, ...], values: Sequence[Any]) -> Array:
    """From a flat sequence of values."""
    if len(values) != count_of(shape):
        raise invalid(
            f"tensor '{name}': expected {count_of(shape)} values of {datatype} {list(shape)}, "
            f"found {len(values)}"
        )
    return reshaped(name, _array(name, datatype, values), shape)


def to_values(name: str, datatype: str, data: Array) -> list[Any]:
    """Flat, as JSON has it. NaN and infinities stay what they are."""
    if datatype == "BYTES":
        try:
            return [value.decode() for value in data.ravel()]
        except UnicodeDecodeError:
            raise invalid(
                f"output '{name}': expected UTF-8, which JSON needs, found other bytes: ask for binary_data"
            ) from None
    if datatype == "BF16":
        data = (np.ascontiguousarray(data).astype(np.uint32) << 16).view(np.float32)
    values: list[Any] = data.ravel().tolist()
    return values


def _split(name: str, count: int, raw: memoryview) -> Array:
    if count * 4 > len(raw):
        raise invalid(f"tensor '{name}': expected {count} lengths of BYTES, found {len(raw)} bytes in all")
    array: npt.NDArray[np.object_] = np.empty(count, dtype=np.object_)
    at = 0
    for index in range(count):
        if at + 4 > len(raw):
            raise invalid(
                f"tensor '{name}': expected {count} elements of BYTES, found {index} and then the end"
            )
        (length,) = struct.unpack_from("<I", raw, at)
        at += 4
        if at + length > len(raw):
            raise invalid(
                f"tensor '{name}': element {index} of BYTES: expected {length} bytes, found {len(raw) - at}"
            )
        array[index] = bytes(raw[at : at + length])
        at += length
    if at != len(raw):
        raise invalid(f"tensor '{name}': expected {at} bytes of BYTES, found {len(raw)}")
    return array


def _flat(name: str, shape: tuple[int, ...], values: object) -> list[Any]:
    count = count_of(shape)
    if not isinstance(values, list):
        raise invalid(f"tensor '{name}': expected a list as 'data', found {short(values)}")
    if len(shape) > 1 and values and isinstance(values[0], list):
        for axis in range(len(shape) - 1):
            if len(values) != count_of(shape[: axis + 1]):
                raise _not_nested(name, shape)
            if not set(map(type, values)) <= {list}:
                raise _not_nested(name, shape)
            if any(len(row) != shape[axis + 1] for row in values):
                raise _not_nested(name, shape)
            values = list(chain.from_iterable(values))
    elif count == 0 and set(map(type, values)) <= {list} and not any(map(len, values)):
        return []
    if len(values) != count:
        raise invalid(f"tensor '{name}': expected {count} values of shape {list(shape)}, found {len(values)}")
    return values


def _not_nested(name: str, shape: tuple[int, ...]) -> ProtocolError:
    return invalid(f"tensor '{name}': expected 'data' flat, or nested as its shape {list(shape)} says")


def _array(name: str, datatype: str, flat: Sequence[Any]) -> Array:
    kind = DATATYPES[datatype]
    if not len(flat):
        return np.empty(0, dtype=kind)
    # By exact type: numpy would take "1" for a number, 1.5 for a whole one, and make long strings of all.
    allowed = _ALLOWED.get(datatype, {int, float} if datatype in _FLOATS else {int})
    found = set(map(type, flat)) - allowed
    if found:
        raise invalid(
            f"tensor '{name}': expected {_spoken(allowed)} as data of {datatype}, found {_spoken(found)}"
        )
    if datatype == "BYTES":
        return _of_bytes(name, flat)
    if datatype == "BOOL":
        return np.array(flat, dtype=kind)
    if datatype not in _FLOATS:
        limits = np.iinfo(kind)
        if min(flat) < limits.min or max(flat) > limits.max:
            raise invalid(f"tensor '{name}': expected values from {limits.min} to {limits.max} of {datatype}")
        return np.array(flat, dtype=kind)
    return _of_floats(name, datatype, flat)


def _of_floats(name: str, datatype: str, flat: Sequence[Any]) -> Array:
    too_large = invalid(f"tensor '{name}': expected values that {datatype} can hold, found a larger one")
    try:
        wide = np.array(flat, dtype=np.float64)
    except OverflowError:
        raise too_large from None
    kind = np.dtype(np.float32) if datatype == "BF16" else DATATYPES[datatype]
    with np.errstate(over="ignore", under="ignore"):
        data = wide.astype(kind)
    if bool(np.any(np.isinf(data) & ~np.isinf(wide))):
        raise too_large
    if datatype != "BF16":
        return data
    rounded = _to_bf16(data)
    if bool(np.any(((rounded & 0x7FFF) == _BF16_INFINITY) & ~np.isinf(wide))):
        raise too_large
    return rounded


def _to_bf16(data: Array) -> Array:
    """To the nearest, ties to even; NaN stays NaN."""
    bits = data.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    result: Array = np.where(np.isnan(data), np.uint32(0x7FC0), rounded).astype(np.uint16)
    return result


def _of_bytes(name: str, flat: Sequence[Any]) -> Array:
    array: npt.NDArray[np.object_] = np.empty(len(flat), dtype=np.object_)
    try:
        for index, value in enumerate(flat):
            array[index] = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:
        raise invalid(
            f"tensor '{name}': expected text that UTF-8 can hold, found half a surrogate pair"
        ) from None
    return array


def reshaped(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """Of as many elements as the shape says."""
    try:
        return array.reshape(shape)
    except ValueError:  # an empty one whose other dimensions overflow
        raise invalid(
            f"tensor '{name}': expected a shape that memory can hold, found {list(shape)}"
        ) from None


def _spoken(types: set[type]) -> str:
    words = {bool: "true or false", int: "whole numbers", float: "fractions", str: "text", bytes: "bytes"}
    words |= {list: "lists", dict: "objects", type(None): "null"}
    return " and ".join(sorted(words.get(kind, kind.__name__) for kind in types))
