"""gRPC through the reference client and by hand, on an engine that echoes."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.served import Server, fake
from support.waiting import until

triton = pytest.importorskip("tritonclient.grpc", reason="the extra 'test' is not installed")
hypothesis = pytest.importorskip("hypothesis", reason="the extra 'test' is not installed")
import grpc  # noqa: E402
from hypothesis import given as examples  # noqa: E402
from hypothesis import settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire import health_pb2, health_pb2_grpc  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire import open_inference_pb2 as messages  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire.open_inference_pb2_grpc import GRPCInferenceServiceStub  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

X = np.arange(6, dtype=np.float32).reshape(2, 3) / 3
CODE = grpc.StatusCode

RAW: dict[str, np.ndarray] = {
    "BOOL": np.array([True, False]),
    "UINT8": np.array([0, 255], dtype=np.uint8),
    "INT64": np.array([-(2**63), 2**63 - 1]),
    "FP16": np.array([0.5, -2], dtype=np.float16),
    "FP32": X,
    "FP64": np.array([1e300, -0.1]),
    "BYTES": np.array([b"one", b"\xff", b""], dtype=object),
}

TYPED: dict[str, tuple[str, list[Any]]] = {
    "BOOL": ("bool_contents", [True, False]),
    "INT8": ("int_contents", [-128, 127]),
    "INT32": ("int_contents", [-(2**31), 2**31 - 1]),
    "INT64": ("int64_contents", [-(2**63), 2**63 - 1]),
    "UINT8": ("uint_contents", [0, 255]),
    "UINT32": ("uint_contents", [0, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 2**64 - 1]),
    "FP32": ("fp32_contents", [0.5, float("inf")]),
    "FP64": ("fp64_contents", [1e300, -0.1]),
    "BYTES": ("bytes_contents", [b"one", b"\xff"]),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(server.grpc) as made:
        yield made


@pytest.fixture(scope="module")
def channel(server: Server) -> Iterator[Any]:
    with grpc.insecure_channel(server.grpc) as made:
        yield made


def given(name: str, datatype: str, data: np.ndarray) -> Any:
    tensor = triton.InferInput(name, list(data.shape), datatype)
    tensor.set_data_from_numpy(data)
    return tensor


def typed(datatype: str, shape: list[int], model: str = "echo", **contents: Any) -> Any:
    request = messages.ModelInferRequest(model_name=model)
    tensor = request.inputs.add(name="x", datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(tensor.contents, field).extend(values)
    return request


def refused(channel: Any, request: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60)
    return caught.value


@pytest.mark.parametrize("datatype", RAW)
def test_raw_tensors_come_back_raw(client: Any, datatype: str) -> None:
    answer = client.infer("echo", [given("x", datatype, RAW[datatype])], request_id="seven")
    np.testing.assert_array_equal(answer.as_numpy("x"), RAW[datatype])
    assert answer.get_response().id == "seven"
    assert len(answer.get_response().raw_output_contents) == 1


@pytest.mark.parametrize("datatype", TYPED)
def test_typed_tensors_come_back_typed(channel: Any, datatype: str) -> None:
    field, values = TYPED[datatype]
    answer = GRPCInferenceServiceStub(channel).ModelInfer(typed(datatype, [2], **{field: values}), timeout=60)
    assert list(getattr(answer.outputs[0].contents, field)) == values
    assert not answer.raw_output_contents


def test_what_it_says_of_itself(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo")
    assert "binary_tensor_data" in client.get_server_metadata().extensions
    assert list(client.get_model_metadata("echo").inputs[0].shape) == [-1, 3]
    assert client.get_model_config("echo").config.input[1].data_type == messages.TYPE_STRING


def test_models_come_and_go(client: Any, channel: Any) -> None:
    client.unload_model("echo")
    assert not client.is_model_ready("echo")
    states = {entry.name: entry.state for entry in client.get_model_repository_index().models}
    assert states == {"echo": "UNAVAILABLE", "fails": "READY"}
    error = refused(channel, typed("FP32", [1], fp32_contents=[1]))
    assert error.code() is CODE.UNAVAILABLE
    assert ("retry-after", "1") in error.trailing_metadata()
    client.load_model("echo")
    assert client.is_model_ready("echo")


@pytest.mark.parametrize(
    ("request_of", "code", "says"),
    [
        (lambda: typed("FP32", [1], model="none", fp32_contents=[1]), CODE.NOT_FOUND, "expected a model of"),
        (lambda: typed("FP32", [1], model="", fp32_contents=[1]), CODE.INVALID_ARGUMENT, "model_name"),
        (lambda: typed("FP32", [1], model="fails", fp32_contents=[1]), CODE.INTERNAL, "no answer from this"),
        (lambda: typed("FP32", [3], fp32_contents=[1]), CODE.INVALID_ARGUMENT, "expected 3 values"),
        (lambda: typed("FP32", [1], int_contents=[1]), CODE.INVALID_ARGUMENT, "found int_contents"),
        (lambda: typed("FP16", [1], fp32_contents=[1]), CODE.INVALID_ARGUMENT, "raw_input_contents only"),
        (lambda: typed("FP8", [1], fp32_contents=[1]), CODE.INVALID_ARGUMENT, "datatype"),
        (lambda: typed("INT8", [1], int_contents=[128]), CODE.INVALID_ARGUMENT, "from -128 to 127"),
        (lambda: typed("FP32", [-1], fp32_contents=[1]), CODE.INVALID_ARGUMENT, "dimensions"),
        (lambda: typed("FP32", [2**62, 2**62], fp32_contents=[1]), CODE.INVALID_ARGUMENT, "dimensions"),
        (lambda: typed("FP32", [0] + [2**31 - 1] * 3), CODE.INVALID_ARGUMENT, "memory can hold"),
        (lambda: typed("FP32", [2**31 - 1] * 9, fp32_contents=[1]), CODE.INVALID_ARGUMENT, "expected 9"),
        (
            lambda: messages.ModelInferRequest(model_name="echo", raw_input_contents=[b"1234"]),
            CODE.INVALID_ARGUMENT,
            "as many raw_input_contents",
        ),
    ],
)
def test_errors_are_answers(channel: Any, request_of: Callable[[], Any], code: Any, says: str) -> None:
    error = refused(channel, request_of())
    assert error.code() is code
    assert says in error.details()


@pytest.mark.parametrize(
    ("kind", "code"),
    [("busy", CODE.RESOURCE_EXHAUSTED), ("deadline", CODE.DEADLINE_EXCEEDED), ("failed", CODE.INTERNAL)],
)
def test_errors_of_the_engine(channel: Any, kind: str, code: Any) -> None:
    request = typed("FP32", [1], fp32_contents=[1])
    request.parameters["raise"].string_param = kind
    assert refused(channel, request).code() is code


def test_both_forms_of_one_input(channel: Any) -> None:
    request = typed("FP32", [1], fp32_contents=[1])
    request.raw_input_contents.append(b"1234")
    assert "found both" in refused(channel, request).details()


def test_a_message_that_is_too_large(channel: Any) -> None:
    error = refused(channel, typed("FP32", [1 << 19], fp32_contents=[0.0] * (1 << 19)))
    assert error.code() is CODE.RESOURCE_EXHAUSTED
    assert "larger than max" in error.details()


def test_what_is_not_offered(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="no such method"):
        client.get_system_shared_memory_status()
    asked = triton.InferRequestedOutput("x", class_count=2)
    with pytest.raises(InferenceServerException, match="classification is not offered"):
        client.infer("echo", [given("x", "FP32", X)], outputs=[asked])
    shared = triton.InferInput("x", [2, 3], "FP32")
    shared.set_shared_memory("region", 24)
    with pytest.raises(InferenceServerException, match="shared memory is not offered"):
        client.infer("echo", [shared])


def test_a_deadline(client: Any) -> None:
    wait = given("wait", "FP32", np.float32([600]))
    with pytest.raises(InferenceServerException, match=r"(?i)deadline"):
        client.infer("echo", [wait], client_timeout=0.2)
    with pytest.raises(InferenceServerException, match="deadline passed"):
        client.infer("echo", [wait], timeout=20_000)


def test_a_cancelled_call_gives_its_place_up(channel: Any, server: Server) -> None:
    import urllib.request

    def in_flight() -> float:
        with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        (line,) = (line for line in text.splitlines() if line.startswith("tunableop_in_flight "))
        return float(line.split()[-1])

    request = typed("FP32", [1], fp32_contents=[600])
    request.inputs[0].name = "wait"
    call = GRPCInferenceServiceStub(channel).ModelInfer.future(request)
    until(lambda: in_flight() == 1, "the request is at the engine")
    call.cancel()
    until(lambda: in_flight() == 0, "its place is given up")


def test_a_stream(client: Any) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number in range(3):
        client.async_stream_infer("echo", [given("x", "FP32", X + number)], request_id=str(number))
    client.async_stream_infer("none", [given("x", "FP32", X)])
    client.async_stream_infer("echo", [given("x", "FP32", X)], request_id="last")
    for number in range(3):
        result, error = answers.get(timeout=60)
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("x"), X + np.float32(number))
    assert "expected a model of" in str(answers.get(timeout=60)[1])
    assert answers.get(timeout=60)[0].get_response().id == "last"
    client.stop_stream()


def test_health(channel: Any) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "inference.GRPCInferenceService"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="other"), timeout=60)
    assert caught.value.code() is CODE.NOT_FOUND


METHODS = ("ModelInfer", "ModelMetadata", "ModelReady", "RepositoryIndex", "ServerLive", "NoSuchThing")


@settings(max_examples=80)
@examples(method=st.sampled_from(METHODS), raw=st.binary(max_size=100))
def test_fuzzed_messages_are_answered(channel: Any, server: Server, method: str, raw: bytes) -> None:
    call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
    try:
        call(raw, timeout=60)
    except grpc.RpcError as error:
        if error.code() not in (CODE.INVALID_ARGUMENT, CODE.NOT_FOUND, CODE.UNIMPLEMENTED):
            raise
    assert server.process.poll() is None


@settings(max_examples=60)
@examples(
    datatype=st.sampled_from([*TYPED, "FP16", "BF16", "", "x"]),
    shape=st.lists(st.integers(-1, 3) | st.integers(-(2**63), 2**63 - 1), max_size=4),
    raw=st.none() | st.binary(max_size=24),
    values=st.lists(st.integers(-3, 300), max_size=4),
    field=st.sampled_from(["int_contents", "fp32_contents", "int64_contents"]),
)
def test_fuzzed_tensors_are_answered(
    channel: Any, datatype: str, shape: list[int], raw: bytes | None, values: list[int], field: str
) -> None:
    request = typed(datatype, shape, **{field: values})
    if raw is not None:
        request.inputs[0].ClearField("contents")
        request.raw_input_contents.append(raw)
    try:
        GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=60)
    except grpc.RpcError as error:
        if error.code() is not CODE.INVALID_ARGUMENT:
            raise
