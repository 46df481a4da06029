"""REST through the reference client and by hand, on an engine that echoes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.served import Server, fake
from support.waiting import until

http_client = pytest.importorskip("tritonclient.http", reason="the extra 'test' is not installed")
hypothesis = pytest.importorskip("hypothesis", reason="the extra 'test' is not installed")
from hypothesis import given as examples  # noqa: E402
from hypothesis import settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

X = np.arange(6, dtype=np.float32).reshape(2, 3) / 3

DATA: dict[str, np.ndarray] = {
    "BOOL": np.array([True, False]),
    "UINT8": np.array([0, 255], dtype=np.uint8),
    "UINT64": np.array([0, 2**64 - 1], dtype=np.uint64),
    "INT8": np.array([-128, 127], dtype=np.int8),
    "INT64": np.array([-(2**63), 2**63 - 1]),
    "FP16": np.array([0.5, -2], dtype=np.float16),
    "FP32": X,
    "FP64": np.array([1e300, -0.1]),
    "BYTES": np.array([b"one", "zwei \u2014 drei".encode()], dtype=object),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with http_client.InferenceServerClient(server.http) as made:
        yield made


def given(name: str, datatype: str, data: np.ndarray, binary: bool = True) -> Any:
    tensor = http_client.InferInput(name, list(data.shape), datatype)
    tensor.set_data_from_numpy(data, binary_data=binary)
    return tensor


def ask(
    server: Server, method: str, path: str, body: bytes | str | None = None, **headers: str
) -> tuple[int, Any, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    with contextlib.closing(connection):
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        # What is refused before all of it was sent has its answer all the same.
        with contextlib.suppress(BrokenPipeError):
            connection.request(method, path, body=body, headers=sent)
        answer = connection.getresponse()
        raw = answer.read()
        try:
            return answer.status, json.loads(raw), answer.headers
        except ValueError:
            return answer.status, raw, answer.headers


def document(**more: Any) -> str:
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}], **more})


@pytest.mark.parametrize("binary_out", [False, True])
@pytest.mark.parametrize("binary_in", [False, True])
@pytest.mark.parametrize("datatype", DATA)
def test_tensors_come_back(client: Any, datatype: str, binary_in: bool, binary_out: bool) -> None:
    if datatype == "FP16" and not binary_in:
        pytest.skip("the client sends FP16 in the binary form only")
    outputs = [http_client.InferRequestedOutput("x", binary_data=binary_out)]
    tensor = given("x", datatype, DATA[datatype], binary_in)
    answer = client.infer("echo", [tensor], outputs=outputs, request_id="seven", model_version="1")
    found = answer.as_numpy("x")
    if datatype == "BYTES" and not binary_out:
        found = np.array([value if isinstance(value, bytes) else value.encode() for value in found])
    np.testing.assert_array_equal(found, DATA[datatype])
    assert answer.get_response()["id"] == "seven"
    assert answer.get_response()["model_version"] == "1"


def test_several_tensors_partly_binary(client: Any) -> None:
    inputs = [
        given("a", "FP32", X),
        given("b", "INT64", DATA["INT64"], False),
        given("c", "BOOL", DATA["BOOL"]),
    ]
    answer = client.infer("echo", inputs)  # every output, binary
    for tensor, data in zip("abc", (X, DATA["INT64"], DATA["BOOL"]), strict=True):
        np.testing.assert_array_equal(answer.as_numpy(tensor), data)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compressed_bodies(client: Any, algorithm: str) -> None:
    answer = client.infer("echo", [given("x", "FP32", X)], request_compression_algorithm=algorithm)
    np.testing.assert_array_equal(answer.as_numpy("x"), X)


def test_what_it_says_of_itself(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    metadata = client.get_model_metadata("echo", model_version="1")
    assert metadata["inputs"][0] == {"name": "x", "datatype": "FP32", "shape": [-1, 3]}
    config = client.get_model_config("echo")
    assert config["max_batch_size"] == 0
    assert [entry["data_type"] for entry in config["input"]] == ["TYPE_FP32", "TYPE_STRING"]


def test_models_come_and_go(client: Any, server: Server) -> None:
    client.unload_model("echo")
    assert not client.is_model_ready("echo")
    states = {entry["name"]: entry["state"] for entry in client.get_model_repository_index()}
    assert states == {"echo": "UNAVAILABLE", "fails": "READY"}
    status, answer, headers = ask(server, "POST", "/v2/models/echo/infer", document())
    assert status == 503
    assert "not loaded" in answer["error"]
    assert headers["retry-after"] == "1"
    client.load_model("echo")
    assert client.is_model_ready("echo")
    with pytest.raises(InferenceServerException, match="expected no parameters"):
        client.load_model("echo", config="{}")


def test_a_body_as_curl_sends_it(server: Server) -> None:
    """`curl --data` calls everything a form, and Triton takes it."""
    kind = {"content_type": "application/x-www-form-urlencoded"}
    assert ask(server, "POST", "/v2/models/echo/infer", document(), **kind)[0] == 200


def test_tuning_results(server: Server) -> None:
    assert ask(server, "GET", "/v2/models/echo/tuning")[1]["counters"] == {"hits": 3}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "says"),
    [
        ("POST", "/v2/models/none/infer", document(), {}, 404, "expected a model of"),
        ("POST", "/v2/models/echo/versions/9/infer", document(), {}, 404, "expected a model of"),
        ("GET", "/v2/models/none", None, {}, 404, "expected a model of"),
        ("GET", "/v2/models/none/ready", None, {}, 404, "expected a model of"),
        ("GET", "/v2/models/echo/infer", None, {}, 405, "Method Not Allowed"),
        ("GET", "/nowhere", None, {}, 404, "Not Found"),
        ("POST", "/v2/systemsharedmemory/region/r/register", "{}", {}, 404, "shared memory"),
        ("GET", "/v2/cudasharedmemory/status", None, {}, 404, "shared memory"),
        ("POST", "/v2/models/echo/infer", "{", {}, 400, "expected JSON"),
        ("POST", "/v2/models/echo/infer", document(), {"content_type": "text/html"}, 400, "content-type"),
        ("POST", "/v2/models/echo/infer", "x" * (2 << 20), {}, 413, "at most 1048576 bytes"),
        (
            "POST",
            "/v2/models/echo/infer",
            gzip.compress(b" " * (64 << 20), mtime=0),
            {"content_encoding": "gzip"},
            413,
            "at most 1048576 bytes",
        ),
        ("POST", "/v2/models/echo/infer", "junk", {"content_encoding": "gzip"}, 400, "content-encoding"),
        ("POST", "/v2/models/echo/infer", "junk", {"content_encoding": "br"}, 400, "content-encoding"),
        (
            "POST",
            "/v2/models/echo/infer",
            gzip.compress(document().encode(), mtime=0)[:-9],
            {"content_encoding": "gzip"},
            400,
            "ends before",
        ),
        (
            "POST",
            "/v2/models/echo/infer",
            gzip.compress(document().encode(), mtime=0) + b"more",
            {"content_encoding": "gzip"},
            400,
            "goes on after the end",
        ),
        # Half a surrogate pair has no UTF-8.
        ("POST", "/v2/models/echo/infer", document(outputs=[{"name": "\ud800"}]), {}, 400, "\ud800"),
        (
            "POST",
            "/v2/models/echo/infer",
            document(),
            {"Inference_Header_Content_Length": "-1"},
            400,
            "whole number",
        ),
        (
            "POST",
            "/v2/models/echo/infer",
            document(),
            {"Inference_Header_Content_Length": "9" * 4000},
            400,
            "whole number",
        ),
        ("POST", "/v2/models/echo/infer", document(outputs=[{"name": "z"}]), {}, 400, "expected an output"),
        ("POST", "/v2/models/fails/infer", document(), {}, 500, "no answer from this one"),
        ("POST", "/v2/models/echo/infer", document(parameters={"raise": "busy"}), {}, 429, "busy"),
        ("POST", "/v2/models/echo/infer", document(parameters={"raise": "unavailable"}), {}, 503, "unavail"),
        ("POST", "/v2/models/echo/infer", document(parameters={"raise": "deadline"}), {}, 504, "deadline"),
        ("POST", "/v2/repository/index", "[", {}, 400, "expected JSON"),
    ],
)
def test_errors_are_answers(
    server: Server, method: str, path: str, body: Any, headers: dict[str, str], status: int, says: str
) -> None:
    found, answer, more = ask(server, method, path, body, **headers)
    assert (found, list(answer)) == (status, ["error"])
    assert says in answer["error"]
    assert ("retry-after" in more) == (status in (429, 503))
    if status in (429, 503):
        assert more["retry-after"] == "3"  # 2.5 seconds, as whole ones
    assert ask(server, "GET", "/v2/health/live")[0] == 200


def test_a_body_without_a_length_is_bounded_too(server: Server) -> None:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    with contextlib.closing(connection):
        chunks = (b" " * 65536 for _ in range(64))
        with contextlib.suppress(ConnectionError):  # it may stop reading before all is sent
            connection.request("POST", "/v2/models/echo/infer", body=chunks, encode_chunked=True)
        assert connection.getresponse().status == 413


def test_a_deadline(server: Server) -> None:
    wait = {"name": "wait", "datatype": "FP32", "shape": [1], "data": [600]}
    body = json.dumps({"inputs": [wait], "parameters": {"timeout": 20_000}})
    status, answer, _ = ask(server, "POST", "/v2/models/echo/infer", body)
    assert status == 504
    assert "deadline" in answer["error"]


def test_a_client_that_leaves_gives_its_place_up(server: Server) -> None:
    host, _, port = server.http.partition(":")
    wait = json.dumps({"inputs": [{"name": "wait", "datatype": "FP32", "shape": [1], "data": [600]}]})
    head = f"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(wait)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as leaving:
        leaving.sendall((head + wait).encode())
        until(lambda: metric(server, "tunableop_in_flight") == 1, "the request is at the engine")
    until(lambda: metric(server, "tunableop_in_flight") == 0, "its place is given up")


def test_half_a_request_and_then_nothing(server: Server) -> None:
    host, _, port = server.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as half:
        half.sendall(b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    assert ask(server, "POST", "/v2/models/echo/infer", document())[0] == 200


def metric(server: Server, name: str) -> float:
    text = ask(server, "GET", "/metrics")[1].decode()
    (line,) = (line for line in text.splitlines() if line.startswith(name + " "))
    return float(line.split()[-1])


def test_metrics(server: Server) -> None:
    ask(server, "POST", "/v2/models/echo/infer", document())
    for number in range(20):
        ask(server, "POST", f"/v2/models/made-up-{number}/infer", document())
    text = ask(server, "GET", "/metrics")[1].decode()
    assert 'tunableop_requests_total{model="echo",operation="infer",outcome="ok",protocol="rest"}' in text
    assert 'outcome="not found"' in text
    assert "made-up" not in text  # a client cannot make series
    assert 'tunableop_request_seconds_bucket{le="0.001",model="echo",protocol="rest"}' in text


def test_many_at_the_same_time(server: Server) -> None:
    def one(number: int) -> float:
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [number]}]})
        answer: float = ask(server, "POST", "/v2/models/echo/infer", body)[1]["outputs"][0]["data"][0]
        return answer

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        assert list(threads.map(one, range(64))) == list(range(64))


@pytest.mark.parametrize("host", ["[::", "a/v2/health/live?", "", "\u00e9"])
def test_the_host_header_is_not_looked_at(server: Server, host: str) -> None:
    status, answer, _ = ask(server, "GET", "/nowhere", Host=host)
    assert (status, answer) == (404, {"error": "GET /nowhere: Not Found"})
    assert ask(server, "GET", "/v2/models/echo", Host=host)[0] == 200


def test_headers_are_bounded(server: Server) -> None:
    host, _, port = server.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as talking:
        talking.sendall(b"GET /v2 HTTP/1.1\r\nx: ")
        sent = 0
        with contextlib.suppress(ConnectionError):
            for _ in range(1024):
                talking.sendall(b"x" * 65536)
                sent += 1
        assert sent < 1024, "it took 64 MiB of one header"
    assert ask(server, "GET", "/v2/health/live")[0] == 200


@settings(max_examples=40)
@examples(
    body=st.binary(max_size=200),
    length=st.none() | st.integers(0, 250).map(str) | st.text("0a -", max_size=9),
)
def test_fuzzed_bodies_are_refused(server: Server, body: bytes, length: str | None) -> None:
    headers = {} if length is None else {"Inference_Header_Content_Length": length}
    status, answer, _ = ask(server, "POST", "/v2/models/echo/infer", body, **headers)
    assert status == 400
    assert list(answer) == ["error"]


@settings(max_examples=40)
@examples(path=st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60))
def test_fuzzed_paths_are_answered(server: Server, path: str) -> None:
    status, _, _ = ask(server, "GET", f"/v2/{path}")
    assert status in (200, 400, 404, 405)
    assert server.process.poll() is None
