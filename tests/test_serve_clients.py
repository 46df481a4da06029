"""Clients that are slow, gone, or of bad manners: nothing of them stays, and the others are answered."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.http2 import DATA, INFER, RST_STREAM, STREAM, Peer
from support.served import Server, fake
from support.waiting import until

grpc = pytest.importorskip("grpc", reason="the extra 'serve' is not installed")
from onnxruntime_ep_tunableop.serve.wire import open_inference_pb2 as messages  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire.open_inference_pb2_grpc import GRPCInferenceServiceStub  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and counts on Linux's sockets")

#: Short times for what a client has to do.
QUICK = ("--body-seconds", "0.4", "--answer-seconds", "0.4", "--idle-seconds", "0.6")
INFER_PATH = "/v2/models/echo/infer"
IN_FLIGHT, PLACES = "tunableop_in_flight", "tunableop_places"
MANY = 1 << 20  # numbers of an answer that no socket's buffer holds
SIZE = ("--max-body", str(16 << 20))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with fake(*QUICK, *SIZE) as one:
        yield one
        assert one.end()[0] == 0


def request(name: str = "x", *values: float) -> bytes:
    inputs = [{"name": name, "datatype": "FP32", "shape": [len(values)], "data": list(values)}]
    return json.dumps({"inputs": inputs}).encode()


def large() -> bytes:
    """Its answer is 4 MiB."""
    header = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "datatype": "FP32",
                    "shape": [MANY],
                    "parameters": {"binary_data_size": 4 * MANY},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    return post(header + bytes(4 * MANY), f"inference-header-content-length: {len(header)}")


def post(content: bytes, *headers: str) -> bytes:
    lines = (
        f"POST {INFER_PATH} HTTP/1.1",
        "host: x",
        f"content-length: {len(content)}",
        *headers,
        "",
        "",
    )
    return "\r\n".join(lines).encode() + content


def message(name: str, *values: float) -> Any:
    asked = messages.ModelInferRequest(model_name="echo")
    asked.inputs.add(name=name, datatype="FP32", shape=[len(values)]).contents.fp32_contents.extend(values)
    return asked


def large_message() -> Any:
    asked = messages.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(4 * MANY)])
    asked.inputs.add(name="x", datatype="FP32", shape=[MANY])
    return asked


def connect(server: Server, *, buffer: int = 0) -> socket.socket:
    """`buffer`: bytes that this side takes without being read."""
    host, _, port = server.http.partition(":")
    one = socket.socket()
    one.settimeout(60)
    if buffer:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    one.connect((host, int(port)))
    return one


def reset(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    one.close()


def rest(one: socket.socket) -> bytes:
    """What comes until the server hangs up."""
    with contextlib.suppress(ConnectionError):
        return b"".join(iter(lambda: one.recv(65536), b""))
    return b""


def ask(server: Server, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.http, timeout=60)
    try:
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def gauges(server: Server) -> dict[str, float]:
    lines = ask(server, "GET", "/metrics")[1].splitlines()
    parts = (line.split() for line in lines)
    return {part[0]: float(part[1]) for part in parts if part[0] in (IN_FLIGHT, PLACES)}


def files(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def resident(server: Server) -> float:
    """MiB."""
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@contextlib.contextmanager
def nothing_stays(server: Server) -> Iterator[None]:
    """After the block no place is taken, no file is open that was not before, and it answers on both ways."""
    answers(server)
    before = files(server)
    yield
    until(lambda: not any(gauges(server).values()), f"no place is taken: {gauges(server)}")
    until(lambda: files(server) <= before, f"{before} open files again, not {files(server)}")
    answers(server)


def answers(server: Server) -> None:
    assert ask(server, "POST", INFER_PATH, request("x", 1.0))[0] == 200
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        assert stub.ModelInfer(message("x", 1.0), timeout=60).outputs[0].name == "x"


def test_a_client_that_reads_nothing_of_its_answer_is_hung_up_on(server: Server) -> None:
    with nothing_stays(server), connect(server, buffer=4096) as one:
        one.sendall(large())
        until(lambda: gauges(server)[PLACES] == 1, "its answer has a place")
        until(lambda: gauges(server)[PLACES] == 0, "its answer is given up")
        assert len(rest(one)) < 4 * MANY


def test_answers_that_nobody_reads_are_counted_and_bounded() -> None:
    """Else clients that ask and read nothing could make it hold any number of answers."""
    with fake("--max-requests", "2", *SIZE) as server, nothing_stays(server), contextlib.ExitStack() as open_:
        for number in (1, 2):
            open_.enter_context(connect(server, buffer=4096)).sendall(large())
            until(lambda number=number: gauges(server)[PLACES] == number, "it has a place")
        assert ask(server, "POST", INFER_PATH, request("x", 1.0))[0] == 429


def test_a_slow_reader_gets_all_of_its_answer(server: Server) -> None:
    """Longer in all than the time for a part."""
    with nothing_stays(server), connect(server, buffer=65536) as one:
        one.sendall(large().replace(b"host: x", b"connection: close\r\nhost: x", 1))
        taken = 0
        pause = threading.Event()
        while part := one.recv(65536):
            taken += len(part)
            pause.wait(0.01)
        assert taken > 4 * MANY


@pytest.mark.parametrize("path", [INFER, STREAM])
@pytest.mark.parametrize("deadline", [None, "400m"])
def test_grpc_a_client_that_takes_nothing_keeps_its_place_only(path: str, deadline: str | None) -> None:
    """Else clients that ask and take nothing could make it hold any number of answers."""
    with fake("--max-requests", "1") as server, nothing_stays(server), Peer(server.grpc, window=0) as peer:
        peer.call(1, path, deadline)
        peer.message(1, message("x", 1.0).SerializeToString(), end=path == INFER)
        if deadline is None:
            until(lambda: gauges(server) == {IN_FLIGHT: 0.0, PLACES: 1.0}, "it has its answer")
            assert ask(server, "POST", INFER_PATH, request("wait", 0.0))[0] == 429
        else:
            assert DATA not in peer.until_end(1)


@pytest.mark.parametrize("part", [None, b"", b"\x0a"])
@pytest.mark.parametrize("path", [INFER, STREAM, "/inference.GRPCInferenceService/ServerLive", "/no/such"])
def test_grpc_a_message_that_does_not_come_is_not_waited_for(
    server: Server, path: str, part: bytes | None
) -> None:
    with nothing_stays(server), Peer(server.grpc) as peer:
        peer.call(1, path)
        if part is not None:
            peer.message(1, part, declared=100, end=False)
        assert peer.until_end(1)


def test_grpc_a_connection_that_asks_nothing_is_closed(server: Server) -> None:
    with nothing_stays(server):
        host, _, port = server.grpc.partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as silent:
            assert isinstance(rest(silent), bytes)


def test_grpc_places_are_taken_before_messages_are_read() -> None:
    with fake("--max-requests", "1") as server, Peer(server.grpc) as peer:
        peer.call(1, INFER)
        until(lambda: gauges(server)[PLACES] == 1, "it has a place")
        assert ask(server, "POST", INFER_PATH, request("x", 1.0))[0] == 429
        peer.send(RST_STREAM, 0, 1, b"\0\0\0\x08")
        until(lambda: gauges(server)[PLACES] == 0, "its place is free")
