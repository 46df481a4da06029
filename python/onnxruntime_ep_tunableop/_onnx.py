"""Writes small ONNX models without the onnx package, which this one does not depend on.

Only what the self-test needs of the format (onnx.proto): nodes with one output, inputs, one output, weights.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FLOAT, INT64, FLOAT16, DOUBLE, BFLOAT16 = 1, 7, 10, 11, 16
OPSET = 17
IR_VERSION = 8  # the one of opset 17

_TYPES = {
    np.dtype(np.float32): FLOAT,
    np.dtype(np.float16): FLOAT16,
    np.dtype(np.float64): DOUBLE,
    np.dtype(np.int64): INT64,
}
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7


@dataclass(frozen=True)
class Node:
    """`output` = `op`(`inputs`)."""

    op: str
    inputs: Sequence[str]
    output: str
    attributes: Mapping[str, float | int | Sequence[int]] = field(default_factory=dict)


def model(
    nodes: Sequence[Node],
    inputs: Mapping[str, tuple[int, Sequence[int]]],
    output: tuple[str, int, Sequence[int]],
    weights: Mapping[str, npt.NDArray[np.generic]],
) -> bytes:
    """A serialised ModelProto. `inputs`: name to (element type, dimensions); `output` likewise."""
    graph = b"".join(_message(1, _node(node)) for node in nodes)
    graph += _text(2, "graph")
    graph += b"".join(_message(5, _tensor(name, values)) for name, values in weights.items())
    graph += b"".join(_message(11, _value(name, kind, shape)) for name, (kind, shape) in inputs.items())
    graph += _message(12, _value(*output))
    opset = _text(1, "") + _number(2, OPSET)
    return _number(1, IR_VERSION) + _text(2, "tunableop") + _message(7, graph) + _message(8, opset)


def _node(node: Node) -> bytes:
    body = b"".join(_text(1, name) for name in node.inputs)
    body += _text(2, node.output) + _text(3, node.output) + _text(4, node.op)
    return body + b"".join(_message(5, _attribute(key, value)) for key, value in node.attributes.items())


def _attribute(name: str, value: float | int | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _key(2, 5) + struct.pack("<f", value) + _number(20, _ATTRIBUTE_FLOAT)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _ATTRIBUTE_INT)
    return _text(1, name) + b"".join(_number(8, v) for v in value) + _number(20, _ATTRIBUTE_INTS)


def _tensor(name: str, values: npt.NDArray[np.generic]) -> bytes:
    body = b"".join(_number(1, size) for size in values.shape)
    return body + _number(2, _TYPES[values.dtype]) + _text(8, name) + _message(9, values.tobytes())


def _value(name: str, kind: int, shape: Sequence[int]) -> bytes:
    tensor = _number(1, kind) + _message(2, b"".join(_message(1, _number(1, size)) for size in shape))
    return _text(1, name) + _message(2, _message(1, tensor))


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _number(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value)


def _message(number: int, body: bytes) -> bytes:
    return _key(number, 2) + _varint(len(body)) + body


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())
