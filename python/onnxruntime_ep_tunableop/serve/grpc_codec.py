"""Inference requests and answers as gRPC has them: messages from and to the protocol's dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .parameters import checked_parameters, deadline_of
from .protocol import Array, InferRequest, InferResponse, ModelMetadata, RequestedOutput, Tensor
from .rest_codec import MAX_TENSORS
from .tensor_codec import (
    checked_datatype,
    checked_shape,
    count_of,
    from_raw,
    from_typed,
    invalid,
    reshaped,
    to_raw,
)
from .wire import open_inference_pb2 as messages

#: The field of InferTensorContents; FP16 and BF16 have none.
_FIELDS: Mapping[str, str] = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def decode_request(message: messages.ModelInferRequest, deadline: float | None) -> InferRequest:
    """`deadline`: the call's own, of time.monotonic()."""
    if not message.model_name:
        raise invalid("expected a model_name, found none")
    if len(message.inputs) > MAX_TENSORS or len(message.outputs) > MAX_TENSORS:
        raise invalid(f"expected at most {MAX_TENSORS} inputs and outputs")
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise invalid(
            f"expected as many raw_input_contents as inputs, found {len(raw)} and {len(message.inputs)}"
        )
    parameters = _parameters("the request", message.parameters)
    return InferRequest(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        inputs=[_input(entry, raw[at] if raw else None) for at, entry in enumerate(message.inputs)],
        outputs=[
            RequestedOutput(entry.name, _parameters(f"output '{entry.name[:80]}'", entry.parameters))
            for entry in message.outputs
        ],
        parameters=parameters,
        deadline=deadline_of(parameters, deadline),
    )


def wants_raw(message: messages.ModelInferRequest) -> bool:
    """As Triton: typed contents are answered with typed contents, all else with raw ones."""
    return not any(entry.HasField("contents") for entry in message.inputs)


def encode_response(response: InferResponse, raw: bool) -> messages.ModelInferResponse:
    """`raw`: as raw_output_contents; so is an answer with a type that has no typed contents."""
    raw = raw or any(tensor.datatype not in _FIELDS for tensor in response.outputs)
    message = messages.ModelInferResponse(
        model_name=response.model, model_version=response.version, id=response.id
    )
    _set_parameters(message.parameters, response.parameters)
    for tensor in response.outputs:
        entry = message.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        _set_parameters(entry.parameters, tensor.parameters)
        if raw:
            message.raw_output_contents.append(to_raw(tensor.datatype, tensor.data))
        else:
            getattr(entry.contents, _FIELDS[tensor.datatype]).extend(tensor.data.ravel().tolist())
    return message


def encode_metadata(model: ModelMetadata) -> messages.ModelMetadataResponse:
    """What a model says of itself."""
    message = messages.ModelMetadataResponse(
        name=model.name, versions=list(model.versions), platform=model.platform
    )
    for to, tensors in ((message.inputs, model.inputs), (message.outputs, model.outputs)):
        for tensor in tensors:
            to.add(name=tensor.name, datatype=tensor.datatype, shape=list(tensor.shape))
    return message


def _input(entry: messages.ModelInferRequest.InferInputTensor, raw: bytes | None) -> Tensor:
    name = entry.name[:256]
    if not entry.name:
        raise invalid("expected a name of every input, found none")
    datatype = checked_datatype(name, entry.datatype)
    shape = checked_shape(name, list(entry.shape))
    parameters = _parameters(f"input '{name}'", entry.parameters)
    if raw is not None:
        if entry.HasField("contents"):
            raise invalid(f"input '{name}': expected contents or raw_input_contents, found both")
        data = from_raw(name, datatype, shape, memoryview(raw))
    else:
        data = _typed(name, datatype, shape, entry.contents)
    return Tensor(entry.name, datatype, data, parameters)


def _typed(name: str, datatype: str, shape: tuple[int, ...], contents: messages.InferTensorContents) -> Array:
    field = _FIELDS.get(datatype)
    if field is None:
        raise invalid(f"input '{name}': {datatype} travels as raw_input_contents only")
    values = getattr(contents, field)
    for other, _ in contents.ListFields():
        if other.name != field:
            raise invalid(f"input '{name}': expected {field} of {datatype}, found {other.name}")
    if datatype == "FP32" and len(values) == count_of(shape):
        # Nothing to check in them, and by far the most there are.
        return reshaped(name, np.fromiter(values, dtype=np.float32, count=len(values)), shape)
    return from_typed(name, datatype, shape, list(values))


def _parameters(what: str, given: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    values: dict[str, Any] = {}
    for key in given:
        parameter = given[key]
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            raise invalid(f"{what}: parameter '{key[:80]}': expected a value, found none")
        values[key] = getattr(parameter, choice)
    return checked_parameters(what, values)


def _set_parameters(to: Any, given: Mapping[str, str | int | float | bool]) -> None:
    for key, value in given.items():
        if isinstance(value, bool):
            to[key].bool_param = value
        elif isinstance(value, int):
            to[key].int64_param = value
        elif isinstance(value, float):
            to[key].double_param = value
        else:
            to[key].string_param = value
