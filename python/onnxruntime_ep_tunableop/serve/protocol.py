"""Requests, answers and errors of the Open Inference Protocol v2, apart from how they travel.

Tensors are numpy arrays in C order. BYTES is an object array of `bytes`. BF16 has no numpy type: it is an
array of uint16 that holds the bits, and `datatype` says so.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Parameters = Mapping[str, str | int | float | bool]

#: Types of the protocol, and what holds them here.
DATATYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BF16": np.dtype(np.uint16),
    "BYTES": np.dtype(np.object_),
}


class Kind(enum.Enum):
    """What went wrong; the front ends turn it into a status of their own."""

    INVALID = "invalid"  #: the request is wrong: 400, INVALID_ARGUMENT
    NOT_FOUND = "not found"  #: no such model or version: 404, NOT_FOUND
    TOO_LARGE = "too large"  #: 413, RESOURCE_EXHAUSTED
    BUSY = "busy"  #: the queue is full: 429 with Retry-After, RESOURCE_EXHAUSTED
    UNAVAILABLE = "unavailable"  #: not ready, or going down: 503 with Retry-After, UNAVAILABLE
    DEADLINE = "deadline"  #: it would be, or was, too late: 504, DEADLINE_EXCEEDED
    UNAUTHENTICATED = "unauthenticated"  #: 401, UNAUTHENTICATED
    FAILED = "failed"  #: the model failed on it: 500, INTERNAL


class ProtocolError(Exception):
    """A request that gets an error for an answer. The message says what was expected and what was found."""

    def __init__(self, kind: Kind, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after  #: seconds, of BUSY and UNAVAILABLE


def is_found(look_up: Callable[[], object]) -> bool:
    """Whether `look_up` finds a model that takes requests. Where there is none of that name: its error."""
    try:
        look_up()
    except ProtocolError as error:
        if error.kind is Kind.NOT_FOUND:
            raise
        return False
    return True


@dataclass(frozen=True)
class Tensor:
    """One input or output. `data` has the shape; `datatype` is of DATATYPES."""

    name: str
    datatype: str
    data: Array
    parameters: Parameters = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the data."""
        return tuple(int(size) for size in self.data.shape)


@dataclass(frozen=True)
class RequestedOutput:
    """An output that the client asks for."""

    name: str
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True)
class InferRequest:
    """One request. `outputs` empty: all of them. `deadline`: of time.monotonic(), None for none."""

    model: str
    version: str
    id: str
    inputs: Sequence[Tensor]
    outputs: Sequence[RequestedOutput] = ()
    parameters: Parameters = field(default_factory=dict)
    deadline: float | None = None


@dataclass(frozen=True)
class InferResponse:
    """Its answer."""

    model: str
    version: str
    id: str
    outputs: Sequence[Tensor]
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True)
class TensorMetadata:
    """What a model says of an input or output; -1 in the shape is free."""

    name: str
    datatype: str
    shape: Sequence[int]


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself."""

    name: str
    versions: Sequence[str]
    platform: str
    inputs: Sequence[TensorMetadata]
    outputs: Sequence[TensorMetadata]


@dataclass(frozen=True)
class ModelState:
    """A line of the repository's index. `state`: READY, UNAVAILABLE, LOADING or UNLOADING."""

    name: str
    version: str
    state: str
    reason: str = ""
