"""Bodies of every kind become tensors, or an error in words: never an exception of another kind."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from onnxruntime_ep_tunableop.serve.protocol import (
    DATATYPES,
    InferRequest,
    InferResponse,
    Kind,
    ProtocolError,
    Tensor,
)
from onnxruntime_ep_tunableop.serve.rest_codec import decode_request, encode_response, read_json
from onnxruntime_ep_tunableop.serve.tensor_codec import from_raw, from_values, to_raw, to_values

hypothesis = pytest.importorskip("hypothesis", reason="the extra 'test' is not installed")
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

VALUES: dict[str, list[Any]] = {
    "BOOL": [True, False, True],
    "BYTES": [b"", b"one", "zwei \u2014 drei".encode()],
    "FP16": [0.5, -2.0, float("inf")],
    "FP32": [1.5, -0.0, float("nan")],
    "FP64": [1e300, 5e-324, float("-inf")],
    "BF16": [0x3F80, 0xC000, 0x7F80],
}


def of(datatype: str) -> np.ndarray:
    if datatype in VALUES:
        return np.array(VALUES[datatype], dtype=DATATYPES[datatype]).reshape(3, 1)
    limits = np.iinfo(DATATYPES[datatype])
    return np.array([limits.min, 7, limits.max], dtype=DATATYPES[datatype]).reshape(3, 1)


def body(*inputs: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"inputs": list(inputs), **more}).encode()


def entry(data: Any, shape: Any, datatype: Any = "FP32", **more: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": shape, "data": data, **more}


def refused(raw: bytes, header_length: int | None = None) -> str:
    with pytest.raises(ProtocolError) as caught:
        decode_request("m", "", raw, header_length)
    assert caught.value.kind is Kind.INVALID
    return str(caught.value)


@pytest.mark.parametrize("datatype", DATATYPES)
def test_raw_bytes_come_back(datatype: str) -> None:
    data = of(datatype)
    found = from_raw("x", datatype, (3, 1), memoryview(to_raw(datatype, data)))
    assert found.dtype == DATATYPES[datatype]
    np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("datatype", DATATYPES)
def test_values_come_back(datatype: str) -> None:
    data = of(datatype)
    values = json.loads(json.dumps(to_values("x", datatype, data)))
    np.testing.assert_array_equal(from_values("x", datatype, (3, 1), values), data)
    nested = [[value] for value in values]
    np.testing.assert_array_equal(from_values("x", datatype, (3, 1), nested), data)


def test_bf16_is_rounded_to_the_nearest() -> None:
    given_values = [1.0, 1.00390625, 1.01171875, 3.38e38, float("nan")]
    found = from_values("x", "BF16", (5,), given_values)
    # Halves go to the even neighbour.
    assert found.tolist() == [0x3F80, 0x3F80, 0x3F82, 0x7F7E, 0x7FC0]


def test_raw_bytes_at_an_odd_place_are_aligned() -> None:
    raw = memoryview(b"\0" + struct.pack("<3d", 1, 2, 3))[1:]
    assert from_raw("x", "FP64", (3,), raw).flags.aligned


@pytest.mark.parametrize("shape", [[], [1], [0], [2, 0, 3], [1, 1, 1]])
def test_odd_shapes(shape: list[int]) -> None:
    count = int(np.prod(shape))
    request = decode_request("m", "", body(entry([1.0] * count, shape)), None)
    assert request.inputs[0].shape == tuple(shape)
    array = np.ones(shape, dtype=np.float32)
    nested = array.tolist() if shape else [1.0]
    assert decode_request("m", "", body(entry(nested, shape)), None).inputs[0].shape == tuple(shape)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (entry([1], [2]), "expected 2 values"),
        (entry([1, 2, 3], [2]), "expected 2 values"),
        (entry([[1, 2], [3]], [2, 2]), "nested as its shape"),
        (entry([[1, 2], 3], [2, 2]), "nested as its shape"),
        (entry([[[1]]], [1, 1]), "lists"),
        (entry(["1"], [1]), "found text"),
        (entry([None], [1]), "found null"),
        (entry([True], [1]), "true or false"),
        (entry([1.5], [1], "INT64"), "fractions"),
        (entry([256], [1], "UINT8"), "from 0 to 255"),
        (entry([-1], [1], "UINT64"), "from 0 to"),
        (entry([2**63], [1], "INT64"), "from -9223372036854775808"),
        (entry([1e39], [1]), "FP32 can hold"),
        (entry([70000], [1], "FP16"), "FP16 can hold"),
        (entry([10**400], [1], "FP64"), "FP64 can hold"),
        (entry([3.4e38], [1], "BF16"), "BF16 can hold"),
        (entry(["\ud800"], [1], "BYTES"), "surrogate"),
        (entry([1], [1], "FP8"), "datatype"),
        (entry([1], [1], None), "datatype"),
        (entry([1], [1], ["FP32"]), "datatype"),
        (entry([1], [-1]), "dimensions"),
        (entry([1], [1.0]), "dimensions"),
        (entry([1], [True]), "dimensions"),
        (entry([1], 1), "shape"),
        (entry([1], [1] * 33), "at most 32"),
        (entry([], [0, 2**31 - 1, 2**31 - 1, 2**31 - 1]), "memory can hold"),
        (entry([1], [2**31 - 1, 2**31 - 1, 2**31 - 1]), "expected 99035"),
        (entry("text", [1]), "a list as 'data'"),
        (entry({"0": 1}, [1]), "a list as 'data'"),
        (entry([1], [1], name=""), "text as 'name'"),
        (entry([1], [1], name=7), "text as 'name'"),
        (entry([1], [1], parameters=[]), "parameters"),
        (entry([1], [1], parameters={"k": None}), "found None"),
        (entry([1], [1], parameters={"binary_data_size": 4}), "found both"),
        (entry([1], [1], parameters={"shared_memory_region": "r"}), "shared memory"),
        ({"name": "x", "datatype": "FP32", "shape": [1]}, "found neither"),
    ],
)
def test_wrong_inputs(made: dict[str, Any], says: str) -> None:
    assert says in refused(body(made))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "expected JSON"),
        (b"\xff\xfe", "expected JSON"),
        (b"[]", "JSON object"),
        (b"3", "JSON object"),
        (b"{}", "'inputs'"),
        (b'{"inputs": 3}', "'inputs'"),
        (b'{"inputs": [3]}', "objects"),
        (b'{"inputs": [], "outputs": [3]}', "objects"),
        (
            b'{"inputs": [], "outputs": [{"name": "y", "parameters": {"classification": 3}}]}',
            "classification",
        ),
        (b'{"inputs": [], "id": 3}', "text as 'id'"),
        (b'{"inputs": [], "parameters": {"timeout": -1}}', "microseconds"),
        (b'{"inputs": [], "parameters": {"timeout": "soon"}}', "microseconds"),
        (b'{"inputs": [], "parameters": {"timeout": NaN}}', "microseconds"),
        (b'{"inputs":' + b"[" * 100_000, "nested too deeply"),
        (b'{"inputs": [' + b"9" * 10_000 + b"]}", "expected JSON"),
    ],
)
def test_wrong_documents(raw: bytes, says: str) -> None:
    assert says in refused(raw)


def test_messages_stay_short() -> None:
    assert len(refused(body(entry([1], [1], "F" * 100_000)))) < 1000
    assert len(refused(body(entry([1], [10**4000])))) < 1000


def test_a_timeout_is_a_deadline() -> None:
    assert decode_request("m", "", body(parameters={"timeout": 5_000_000}), None).deadline is not None
    assert decode_request("m", "", body(parameters={"timeout": 0}), None).deadline is None


def binary(size: Any, shape: list[int], raw: bytes, datatype: str = "FP32") -> tuple[bytes, int]:
    made = {"name": "x", "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}
    header = json.dumps({"inputs": [made]}).encode()
    return header + raw, len(header)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((8, [2], b"1234"), "that are left"),
        ((4, [2], b"1234"), "expected 8 bytes"),
        ((4, [1], b"12345678"), "expected 4 bytes of binary"),
        ((-4, [1], b"1234"), "that are left"),
        (("4", [1], b"1234"), "that are left"),
        ((True, [1], b"1"), "that are left"),
        ((4, [2**31 - 1, 2**31 - 1], b"1234"), "expected 18446744056529682436 bytes"),
        ((2, [2], b"\0\2", "BOOL"), "bytes 0 and 1"),
        ((4, [1], b"\xff\xff\xff\xff", "BYTES"), "expected 4294967295 bytes"),
        ((6, [1], b"\1\0\0\0ab", "BYTES"), "expected 5 bytes"),
        ((4, [2], b"\0\0\0\0", "BYTES"), "expected 2 lengths"),
        ((4, [2**31 - 1], b"\0\0\0\0", "BYTES"), "lengths of BYTES"),
    ],
)
def test_wrong_binary_tensors(arguments: tuple[Any, ...], says: str) -> None:
    raw, length = binary(*arguments)
    assert says in refused(raw, length)


def test_a_header_longer_than_the_body() -> None:
    assert "Inference-Header-Content-Length" in refused(b"{}", 3)


def test_answers_are_binary_where_it_is_asked_for() -> None:
    tensors = [Tensor(name, "FP32", np.float32([1, 2])) for name in ("a", "b")]
    outputs = [{"name": "a"}, {"name": "b", "parameters": {"binary_data": False}}]
    asked = decode_request("m", "", body(outputs=outputs, parameters={"binary_data_output": True}), None)
    raw, length = encode_response(asked, InferResponse("m", "1", "", tensors))
    assert length is not None
    first, second = json.loads(raw[:length])["outputs"]
    assert first["parameters"] == {"binary_data_size": 8}
    assert "data" not in first
    assert second["data"] == [1, 2]
    assert raw[length:] == struct.pack("<2f", 1, 2)


def test_bytes_that_are_no_text_need_the_binary_form() -> None:
    asked = InferRequest("m", "", "", [])
    tensor = Tensor("y", "BYTES", np.array([b"\xff"], dtype=object))
    with pytest.raises(ProtocolError, match="binary_data"):
        encode_response(asked, InferResponse("m", "1", "", [tensor]))


def decoded(raw: bytes, length: int | None) -> InferRequest | None:
    """None where it is refused as invalid; any other exception goes on."""
    try:
        return decode_request("m", "", raw, length)
    except ProtocolError as error:
        if error.kind is not Kind.INVALID:
            raise
        return None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
sizes = st.one_of(st.integers(-1, 4), st.integers(), json_values)
tensors = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=3) | json_values,
        "datatype": st.sampled_from(list(DATATYPES)) | json_values,
        "shape": st.lists(sizes, max_size=4) | json_values,
        "data": json_values,
        "parameters": st.dictionaries(
            st.sampled_from(["binary_data_size", "binary_data", "classification", "other"]), sizes, max_size=2
        )
        | json_values,
    },
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "inputs": st.lists(tensors, max_size=3) | json_values,
        "outputs": st.lists(tensors, max_size=2) | json_values,
        "parameters": json_values,
        "id": json_values,
    },
)


@given(document=documents | json_values, raw=st.binary(max_size=40), cut=st.integers(-3, 3))
def test_no_document_is_more_than_refused(document: Any, raw: bytes, cut: int) -> None:
    header = json.dumps(document).encode()
    request = decoded(header + raw, len(header) + cut)
    for tensor in request.inputs if request else ():
        assert tensor.data.dtype == DATATYPES[tensor.datatype]


@given(raw=st.binary(max_size=60), length=st.none() | st.integers(-1, 70))
def test_no_bytes_are_more_than_refused(raw: bytes, length: int | None) -> None:
    for maybe in (raw, zlib.compress(raw)):
        decoded(maybe, length)


@given(
    datatype=st.sampled_from(list(DATATYPES)),
    shape=st.lists(st.integers(0, 3), max_size=3),
    raw=st.binary(max_size=60),
)
def test_raw_bytes_become_the_shape_or_an_error(datatype: str, shape: list[int], raw: bytes) -> None:
    try:
        data = from_raw("x", datatype, tuple(shape), memoryview(raw))
    except ProtocolError:
        return
    assert data.shape == tuple(shape)
    assert to_raw(datatype, data) == raw


def test_read_json_takes_what_is_utf8() -> None:
    assert read_json('{"ä": 1}'.encode()) == {"ä": 1}
