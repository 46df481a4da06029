"""Inference requests and answers as REST has them: a JSON object, and after it the bytes of binary tensors.

Knows nothing of HTTP but the length of the JSON part, which travels in the header
`Inference-Header-Content-Length`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .parameters import checked_parameters, deadline_of
from .protocol import InferRequest, InferResponse, RequestedOutput, Tensor
from .tensor_codec import (
    checked_datatype,
    checked_shape,
    from_raw,
    from_values,
    invalid,
    short,
    to_raw,
    to_values,
)

MAX_TENSORS = 1024
_SIZE = "binary_data_size"


def read_json(raw: bytes | memoryview) -> dict[str, Any]:
    """An object; whatever else there is, is an error in words."""
    try:
        document = json.loads(bytes(raw))
    except RecursionError:
        raise invalid("expected JSON, found it nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, and numbers of too many digits
        raise invalid(f"expected JSON, found something else: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise invalid(f"expected a JSON object, found {short(document)}")
    return document


def decode_request(model: str, version: str, body: bytes, header_length: int | None) -> InferRequest:
    """`header_length`: of the JSON part; None: the body has no other."""
    view = memoryview(body)
    if header_length is not None and not 0 <= header_length <= len(view):
        raise invalid(
            f"Inference-Header-Content-Length: expected at most the {len(view)} bytes of the body, "
            f"found {short(header_length)}"
        )
    end = len(view) if header_length is None else header_length
    document = read_json(view[:end])
    inputs = _inputs(_entries(document, "inputs"), view[end:])
    parameters = checked_parameters("the request", document.get("parameters"))
    outputs = [_output(entry) for entry in _entries(document, "outputs", needed=False)]
    return InferRequest(
        model=model,
        version=version,
        id=_text(document, "id", "the request", needed=False),
        inputs=inputs,
        outputs=outputs,
        parameters=parameters,
        deadline=deadline_of(parameters),
    )


def encode_response(request: InferRequest, response: InferResponse) -> tuple[bytes, int | None]:
    """The body, and the length of its JSON part; None: it has no other."""
    everywhere = bool(request.parameters.get("binary_data_output", False))
    asked = {output.name: output.parameters.get("binary_data", everywhere) for output in request.outputs}
    binary: list[bytes] = []
    outputs: list[dict[str, Any]] = []
    for tensor in response.outputs:
        entry: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
        }
        parameters = dict(tensor.parameters)
        if asked.get(tensor.name, everywhere):
            raw = to_raw(tensor.datatype, tensor.data)
            binary.append(raw)
            parameters[_SIZE] = len(raw)
        else:
            entry["data"] = to_values(tensor.name, tensor.datatype, tensor.data)
        if parameters:
            entry["parameters"] = parameters
        outputs.append(entry)
    document: dict[str, Any] = {"model_name": response.model, "model_version": response.version}
    if response.id:
        document["id"] = response.id
    if response.parameters:
        document["parameters"] = dict(response.parameters)
    document["outputs"] = outputs
    header = json.dumps(document, separators=(",", ":")).encode()
    if not binary:
        return header, None
    return b"".join((header, *binary)), len(header)


def _entries(document: Mapping[str, Any], key: str, needed: bool = True) -> list[dict[str, Any]]:
    entries = document.get(key)
    if entries is None and not needed:
        return []
    if not isinstance(entries, list) or len(entries) > MAX_TENSORS:
        raise invalid(f"'{key}': expected a list of at most {MAX_TENSORS} objects, found {short(entries)}")
    for entry in entries:
        if not isinstance(entry, dict):
            raise invalid(f"'{key}': expected objects, found {short(entry)}")
    return entries


def _text(entry: Mapping[str, Any], key: str, where: str, needed: bool = True) -> str:
    value = entry.get(key)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value):
        raise invalid(f"{where}: expected text as '{key}', found {short(value)}")
    return value


def _inputs(entries: list[dict[str, Any]], binary: memoryview) -> list[Tensor]:
    tensors: list[Tensor] = []
    at = 0
    for entry in entries:
        name = _text(entry, "name", "an input")
        datatype = checked_datatype(name, entry.get("datatype"))
        shape = checked_shape(name, entry.get("shape"))
        parameters = checked_parameters(f"input '{name}'", entry.get("parameters"))
        size = parameters.pop(_SIZE, None)
        if size is None:
            if "data" not in entry:
                raise invalid(f"input '{name}': expected 'data', or the parameter '{_SIZE}', found neither")
            data = from_values(name, datatype, shape, entry["data"])
        else:
            if "data" in entry:
                raise invalid(f"input '{name}': expected 'data' or the parameter '{_SIZE}', found both")
            if type(size) is not int or not 0 <= size <= len(binary) - at:
                raise invalid(
                    f"input '{name}': expected a {_SIZE} of at most the {len(binary) - at} bytes that are "
                    f"left, found {short(size)}"
                )
            data = from_raw(name, datatype, shape, binary[at : at + size])
            at += size
        tensors.append(Tensor(name, datatype, data, parameters))
    if at != len(binary):
        raise invalid(f"expected {at} bytes of binary tensors after the JSON part, found {len(binary)}")
    return tensors


def _output(entry: dict[str, Any]) -> RequestedOutput:
    name = _text(entry, "name", "an output")
    return RequestedOutput(name, checked_parameters(f"output '{name}'", entry.get("parameters")))
