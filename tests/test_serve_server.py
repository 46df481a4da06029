"""The server's process: its end, who may ask, its log; and what travels."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import io
import json
import pickle
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from onnxruntime_ep_tunableop.serve.access_log import AccessLog
from onnxruntime_ep_tunableop.serve.records import Record
from support.served import FAKE, Server, fake
from support.waiting import until

grpc = pytest.importorskip("grpc", reason="the extra 'serve' is not installed")
service_pb2 = pytest.importorskip("tritonclient.grpc", reason="the extra 'test' is not installed").service_pb2
from onnxruntime_ep_tunableop.serve.front import FrontSettings  # noqa: E402
from onnxruntime_ep_tunableop.serve.server import _listen  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire import health_pb2, health_pb2_grpc  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire import open_inference_pb2 as messages  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire.open_inference_pb2_grpc import GRPCInferenceServiceStub  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "a token"


def body(**values: float) -> str:
    inputs = [
        {"name": name, "datatype": "FP32", "shape": [1], "data": [value]} for name, value in values.items()
    ]
    return json.dumps({"inputs": inputs})


def post(server: Server, content: str, **headers: str) -> int:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    try:
        connection.request("POST", "/v2/models/echo/infer", body=content, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def get(server: Server, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def in_flight(server: Server) -> float:
    (line,) = (
        line for line in get(server, "/metrics")[1].splitlines() if line.startswith("tunableop_in_flight ")
    )
    return float(line.split()[-1])


def waiting_call(server: Server, channel: Any, seconds: float) -> Any:
    request = messages.ModelInferRequest(model_name="echo")
    request.inputs.add(name="wait", datatype="FP32", shape=[1]).contents.fp32_contents.append(seconds)
    return GRPCInferenceServiceStub(channel).ModelInfer.future(request)


def test_no_answer_waits_for_the_one_before_to_be_confirmed() -> None:
    async def accepted() -> int:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[int] = loop.create_future()

        class Telling(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                connection = transport.get_extra_info("socket")
                told.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        with _listen(FrontSettings(http_port=0)) as listening:
            async with await loop.create_server(Telling, sock=listening):
                with socket.create_connection(listening.getsockname()):
                    return await told

    assert asyncio.run(accepted()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_accepted_is_answered(number: signal.Signals) -> None:
    with (
        fake() as server,
        grpc.insecure_channel(server.grpc) as channel,
        concurrent.futures.ThreadPoolExecutor(4) as threads,
    ):
        asked = [threads.submit(post, server, body(wait=1.0)) for _ in range(3)]
        call = waiting_call(server, channel, 1.0)
        until(lambda: in_flight(server) == 4, "all of them are at the engine")
        code, said = server.end(number)
        assert [one.result(timeout=60) for one in asked] == [200, 200, 200]
        assert call.result(timeout=60).outputs[0].name == "wait"
        assert code == 0
        assert "answered 4, cancelled 0" in said


def test_a_server_that_is_idle_ends_at_once() -> None:
    with fake() as server:
        assert server.end()[0] == 0


def test_connections_that_ask_nothing_do_not_keep_it() -> None:
    with fake() as server:
        host, _, port = server.http.partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as idle:
            idle.sendall(b"POST /v2/models/echo/infer HTTP/1.1\r\n")
            assert get(server, "/v2/health/ready")[0] == 200
            code, _ = server.end()
            assert code == 0


def test_a_request_that_is_on_its_way_is_answered() -> None:
    with fake() as server:
        host, _, port = server.http.partition(":")
        content = body(x=1)
        head = f"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
        with (
            socket.create_connection((host, int(port)), timeout=60) as coming,
            socket.create_connection((host, int(port)), timeout=60) as second,
        ):
            for one in (coming, second):
                one.sendall((head + content).encode())
                first = b""
                while not first.endswith(b"]}]}"):
                    first += one.recv(4096)
            second.sendall(head.encode())  # and the body when the server is going down
            server.process.send_signal(signal.SIGTERM)
            coming.sendall((head + content).encode())
            second.sendall(content.encode())
            for one in (coming, second):
                answer = b"".join(iter(lambda one=one: one.recv(4096), b""))
                assert answer.startswith(b"HTTP/1.1 200")
        said, _ = server.process.communicate(timeout=60)
        assert "answered 4" in said
        assert server.process.returncode == 0


def test_what_takes_longer_than_the_grace_time_is_cut_off() -> None:
    with fake("--grace", "1") as server, concurrent.futures.ThreadPoolExecutor(1) as threads:
        asked = threads.submit(post, server, body(wait=600.0))
        until(lambda: in_flight(server) == 1, "it is at the engine")
        code, said = server.end()
        assert code == 1
        assert "cancelled 1" in said
        assert asked.result(timeout=60) == 503


def test_a_second_signal_ends_it_at_once() -> None:
    with fake("--grace", "600") as server, concurrent.futures.ThreadPoolExecutor(1) as threads:
        asked = threads.submit(post, server, body(wait=600.0))
        until(lambda: in_flight(server) == 1, "it is at the engine")
        server.process.send_signal(signal.SIGTERM)

        def refuses() -> bool:
            host, _, port = server.http.partition(":")
            try:
                socket.create_connection((host, int(port)), timeout=60).close()
            except ConnectionRefusedError:
                return True
            return False

        until(refuses, "it accepts no more")
        assert server.process.poll() is None
        assert server.end(signal.SIGINT)[0] == 128 + signal.SIGINT
        assert asked.exception(timeout=60) is not None


def test_no_token_no_answer() -> None:
    with fake("--token", TOKEN) as server:
        right = {"authorization": f"Bearer {TOKEN}"}
        for wrong in (
            {},
            {"authorization": "Bearer other"},
            {"authorization": TOKEN},
            {"authorization": "é"},
        ):
            assert post(server, body(x=1), **wrong) == 401
        assert post(server, body(x=1), **right) == 200
        assert get(server, "/metrics")[0] == 401
        assert get(server, "/metrics", **right)[0] == 200
        assert get(server, "/v2/health/ready")[0] == 200
        with grpc.insecure_channel(server.grpc) as channel:
            stub = GRPCInferenceServiceStub(channel)
            with pytest.raises(grpc.RpcError) as caught:
                stub.ServerMetadata(messages.ServerMetadataRequest(), timeout=60)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            metadata = tuple(right.items())
            assert stub.ServerMetadata(messages.ServerMetadataRequest(), timeout=60, metadata=metadata).name
            assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)


def test_a_token_is_asked_for_whatever_the_host_header_says() -> None:
    with fake("--token", TOKEN) as server:
        for host in ("x/v2/health/live?", "x/v2/health/live#", "[::"):
            assert get(server, "/v2/models/echo", Host=host)[0] == 401


def test_more_requests_than_it_takes() -> None:
    with fake("--max-requests", "1") as server, grpc.insecure_channel(server.grpc) as channel:
        call = waiting_call(server, channel, 600.0)
        until(lambda: in_flight(server) == 1, "it is at the engine")
        assert post(server, body(x=1)) == 429
        with pytest.raises(grpc.RpcError) as caught:
            waiting_call(server, channel, 0.0).result(timeout=60)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        call.cancel()
        until(lambda: post(server, body(x=1)) == 200, "its place is free again")


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"POST /v2/models/echo/infer HTTP/1.1\r\nhost:",
        b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
    ],
)
def test_requests_that_do_not_come_are_not_waited_for(part: bytes) -> None:
    with fake("--body-seconds", "0.2") as server:
        host, _, port = server.http.partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as slow:
            slow.sendall(part)
            answer = b"".join(iter(lambda: slow.recv(4096), b""))  # until it hangs up
        assert (b"504" in answer) == part.endswith(b"{")


def test_tls(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes a certificate, is not here")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [openssl, "req", "-x509", *curve, *names, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    with fake("--tls", str(certificate), str(key)) as server:
        context = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(f"https://{server.http}/v2", context=context, timeout=60) as answer:
            assert answer.status == 200
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(server.grpc, credentials) as channel:
            live = GRPCInferenceServiceStub(channel).ServerLive(messages.ServerLiveRequest(), timeout=60)
            assert live.live
        assert server.end()[0] == 0


def test_control_can_be_switched_off() -> None:
    with fake("--no-control") as server:
        connection = http.client.HTTPConnection(server.http, timeout=60)
        connection.request("POST", "/v2/repository/models/echo/unload")
        answer = connection.getresponse()
        assert answer.status == 400
        assert "switched off" in answer.read().decode()
        connection.close()


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for which in ("--http-port", "--grpc-port"):
            done = subprocess.run(
                [sys.executable, str(FAKE), which, port],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode != 0
            assert "use" in done.stderr
            assert "answered 0" in done.stdout  # the engine was shut down


def test_the_access_log_is_json(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with fake("--access-log", str(path)) as server:
        post(server, body(x=1))
        post(server, "{")
        assert get(server, "/v2/health/ready")[0] == 200  # a probe that finds all well
        server.end()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["operation"], line["outcome"]) for line in lines] == [("infer", "ok"), ("infer", "invalid")]
    assert lines[0]["bytes_in"] == len(body(x=1))
    assert "expected JSON" in lines[1]["message"]


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    class Full(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError("no space left")

    log = AccessLog(Full())
    for _ in range(2):
        log.write(Record("rest", "infer"))


def test_messages_are_those_of_the_reference_client() -> None:
    """Names, numbers and types of fields: what the wire has. What we leave out, we leave out whole."""

    def compare(ours: Any, theirs: Any) -> None:
        for field in ours.fields:
            other = theirs.fields_by_name[field.name]
            assert (field.number, field.type) == (other.number, other.type), field.full_name
        for nested in ours.nested_types:
            compare(nested, theirs.nested_types_by_name[nested.name])

    config = sys.modules["tritonclient.grpc.model_config_pb2"].DESCRIPTOR.message_types_by_name
    theirs = {**service_pb2.DESCRIPTOR.message_types_by_name, **config}
    for name, ours in messages.DESCRIPTOR.message_types_by_name.items():
        compare(ours, theirs[name])
    (service,) = messages.DESCRIPTOR.services_by_name.values()
    other = service_pb2.DESCRIPTOR.services_by_name[service.name]
    assert service.full_name == other.full_name
    for method in service.methods:
        same = other.methods_by_name[method.name]
        assert (method.input_type.name, method.output_type.name) == (
            same.input_type.name,
            same.output_type.name,
        )


def test_messages_can_be_pickled() -> None:
    request = messages.ModelInferRequest(model_name="m", raw_input_contents=[b"1"])
    request.parameters["k"].int64_param = 3
    assert pickle.loads(pickle.dumps(request)) == request
    assert type(request).__module__ == messages.__name__


def test_generated_modules_are_current() -> None:
    pytest.importorskip("grpc_tools", reason="the extra 'test' is not installed")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate_protocol.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
