"""Clients that are slow, gone, or of bad manners: nothing of them stays, and the others are answered."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import socket
import sys
import threading
import time
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
    """3 MiB: clients take answers of 4 at most."""
    asked = messages.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(3 * MANY)])
    asked.inputs.add(name="x", datatype="FP32", shape=[3 * MANY // 4])
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


@pytest.mark.parametrize("leave", [socket.socket.close, reset])
def test_clients_that_leave_while_their_request_is_run(server: Server, leave: Any) -> None:
    with nothing_stays(server):
        ones = [connect(server) for _ in range(20)]
        for one in ones:
            one.sendall(post(request("wait", 600.0)))
        until(lambda: gauges(server)[IN_FLIGHT] == 20, "all are at the engine")
        for one in ones:
            leave(one)


def test_clients_that_leave_in_their_body_or_their_answer(server: Server) -> None:
    whole = large()
    with nothing_stays(server):
        for length in (40, 2000, len(whole) - 1, len(whole)):
            for leave in (socket.socket.close, reset):
                with connect(server, buffer=4096) as one:
                    with contextlib.suppress(ConnectionError):
                        one.sendall(whole[:length])
                    if length == len(whole):
                        one.recv(100)
                    leave(one)


def test_grpc_calls_that_are_cancelled_while_they_run(server: Server) -> None:
    with nothing_stays(server), grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        calls = [stub.ModelInfer.future(message("wait", 600.0)) for _ in range(10)]
        calls += [stub.ModelStreamInfer(iter([message("wait", 600.0)])) for _ in range(10)]
        until(lambda: gauges(server)[IN_FLIGHT] == 20, "all are at the engine")
        for call in calls:
            call.cancel()


def test_grpc_streams_that_are_left_in_the_midst(server: Server) -> None:
    with nothing_stays(server), grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        for _ in range(10):
            call = stub.ModelStreamInfer(iter([large_message()] * 2))
            next(call)
            call.cancel()


@pytest.mark.parametrize("begun", [False, True])
def test_grpc_streams_without_a_request_do_not_keep_a_server_that_ends(begun: bool) -> None:
    with fake("--grace", "600") as server, grpc.insecure_channel(server.grpc) as channel:
        asked = threading.Event()

        def requests() -> Iterator[Any]:
            if begun:
                yield message("x", 1.0)
            asked.wait(60)

        call = GRPCInferenceServiceStub(channel).ModelStreamInfer(requests())
        if begun:
            next(call)
        else:
            answers(server)
        assert server.end()[0] == 0
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        asked.set()


def test_a_stream_that_is_in_use_is_not_ended(server: Server) -> None:
    """It lives longer than it may be idle."""
    with nothing_stays(server), grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        found = list(stub.ModelStreamInfer(iter([message("wait", 0.3)] * 4), timeout=60))
        assert [one.error_message for one in found] == [""] * 4


def test_requests_one_after_the_other_without_waiting(server: Server) -> None:
    """Pipelined: answered in their order, and one that is malformed after those before it."""
    many = [post(request("x", float(number))) for number in range(50)]
    with nothing_stays(server), connect(server) as one:
        one.sendall(b"".join(many) + post(b"{", "connection: close"))
        found = rest(one)
        assert found.count(b"HTTP/1.1 200 OK") == 50
        assert found.count(b"HTTP/1.1 400") == 1
        places = [found.index(b'"data":[%.1f]' % number) for number in range(50)]
        assert places == sorted(places)


def test_a_client_that_leaves_a_pipeline(server: Server) -> None:
    with nothing_stays(server), connect(server) as one:
        one.sendall(post(request("wait", 600.0)) * 20)
        until(lambda: gauges(server)[IN_FLIGHT] == 1, "the first is at the engine")
        reset(one)


@pytest.mark.parametrize("part", [1, 2, 3, 5, 7])
def test_an_offer_that_comes_in_parts_is_not_taken(server: Server, part: int) -> None:
    asked = post(request("x", 7.0), "connection: upgrade, http2-settings", "UPGRADE: h2c")
    with nothing_stays(server), connect(server) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(asked), part):
            one.sendall(asked[at : at + part])
            time.sleep(0.0005)  # else the system makes one part of several
        found = b""
        while not found.endswith(b"]}]}"):
            more = one.recv(65536)
            assert more, found
            found += more
        assert found.startswith(b"HTTP/1.1 200 OK")
        assert b"[7.0]" in found


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_offer_to_speak_another_protocol_is_not_taken(server: Server, protocol: str) -> None:
    """Java's own client makes one with each request."""
    upgrade = ("connection: upgrade, http2-settings", f"upgrade: {protocol}", "http2-settings: AAMAAABk")
    with nothing_stays(server), connect(server) as one:
        for number in range(3):
            one.sendall(post(request("x", float(number)), *upgrade))
            found = b""
            while not found.endswith(b"]}]}"):
                part = one.recv(65536)
                assert part, found
                found += part
            assert found.startswith(b"HTTP/1.1 200 OK")
            assert b"[%.1f]" % number in found


@pytest.mark.parametrize(
    "text",
    [
        b"\r\n" * 1000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /v2/models/%ff%00 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /v2 HTTP/9.9\r\nhost: x\r\n\r\n",
        post(b"", "content-length: 5"),
        post(b"", "transfer-encoding: chunked") + b"zz\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        b"GET /v2 HTTP/1.1\r\n" + b"x: y\r\n" * 20000,
    ],
    ids=range(12),
)
def test_what_is_no_request_is_hung_up_on(server: Server, text: bytes) -> None:
    with nothing_stays(server), connect(server) as one:
        with contextlib.suppress(ConnectionError):
            one.sendall(text)
        found = rest(one)
        assert b" 500 " not in found, found
        assert b" 200 " not in found, found


def test_chunks_that_trickle_are_cut_off(server: Server) -> None:
    with nothing_stays(server), connect(server) as one:
        one.sendall(b"POST %b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" % INFER_PATH.encode())
        pause = threading.Event()
        with contextlib.suppress(ConnectionError):
            while True:
                one.sendall(b"1\r\n \r\n")
                pause.wait(0.02)
        until(lambda: gauges(server)[PLACES] == 0, "its place is free")


def test_thousands_of_idle_connections(server: Server) -> None:
    with nothing_stays(server), contextlib.ExitStack() as open_:
        for _ in range(2000):
            open_.enter_context(connect(server))
        answers(server)


def test_connections_beyond_the_limit_take_the_place_of_idle_ones() -> None:
    with (
        fake("--max-connections", "20") as server,
        nothing_stays(server),
        contextlib.ExitStack() as open_,
        connect(server) as first,
    ):
        first.sendall(post(request("wait", 1.0), "connection: close"))
        until(lambda: gauges(server)[IN_FLIGHT] == 1, "it is at the engine")
        for _ in range(200):
            open_.enter_context(connect(server))
        answers(server)
        assert files(server) < 60
        assert rest(first).startswith(b"HTTP/1.1 200")


def test_connections_beyond_the_limit_are_refused_in_words_when_all_are_in_use() -> None:
    with fake("--max-connections", "3") as server, contextlib.ExitStack() as open_:
        ones = [open_.enter_context(connect(server)) for _ in range(3)]
        for one in ones:
            one.sendall(post(request("wait", 600.0)))
        with grpc.insecure_channel(server.grpc) as channel:  # which has a limit of its own
            stub = GRPCInferenceServiceStub(channel)
            assert stub.ModelInfer(message("x", 1.0), timeout=60).model_name
        until(lambda: ask_refused(server), "there is no room")
        reset(ones[0])
        until(lambda: not ask_refused(server), "there is room again")


def ask_refused(server: Server) -> bool:
    status, said = ask(server, "GET", "/v2/health/live")
    assert status == 200 or "3 connections" in said
    return status == 503


def test_a_server_that_may_open_few_files_has_room_for_its_own() -> None:
    """A client opens more connections than it may have files."""
    limit = 120

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    with fake(prepare=few) as server, contextlib.ExitStack() as open_:
        for _ in range(2 * limit):
            open_.enter_context(connect(server))
        assert ask(server, "POST", INFER_PATH, request("x", 1.0))[0] == 200
        assert files(server) < limit - 20
        assert server.end()[0] == 0


def test_the_kernel_looks_after_connections_whose_client_is_silent(server: Server) -> None:
    """A client whose machine is gone says nothing for ever: probes find it."""
    with nothing_stays(server), connect(server) as one:
        one.sendall(post(request("wait", 600.0)))
        until(lambda: gauges(server)[IN_FLIGHT] == 1, "it is at the engine")
        port = f":{one.getsockname()[1]:04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        (timer,) = (line[5] for line in lines if line[2].endswith(port))
        kind, _, ticks = timer.partition(":")
        assert kind == "02", "keepalive"
        assert int(ticks, 16) <= 60 * 100
