"""Ends of a server under load: by TERM, and by KILL at any moment."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.graphs import matmul_model
from support.served import Server, started
from support.waiting import until

grpc = pytest.importorskip("grpc", reason="the extra 'serve' is not installed")
from onnxruntime_ep_tunableop.serve.wire import open_inference_pb2 as messages  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire.open_inference_pb2_grpc import GRPCInferenceServiceStub  # noqa: E402

B = np.random.default_rng(2).standard_normal((64, 48), dtype=np.float32)
SERVE = [sys.executable, "-m", "onnxruntime_ep_tunableop", "serve"]
MARK = "TUNABLEOP_TEST_OF_A_SERVER"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(matmul_model(["m", 64], None, constants={"B": B}).SerializeToString())
    return path


@contextlib.contextmanager
def serving(tmp_path: Path, model: Path, *arguments: str) -> Iterator[Server]:
    """With its access log in access.log. It is ready."""
    options = ("--http-port", "0", "--grpc-port", "0", "--access-log", str(tmp_path / "access.log"))
    command = [*SERVE, f"small={model}", *options, "--state", str(tmp_path / "state"), *arguments]
    with started(command) as server:
        until(lambda: metric(server, "tunableop_ready") == 1.0, "it is ready")
        yield server


def metric(server: Server, name: str) -> float:
    with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=60) as answer:
        lines = [line.split() for line in answer.read().decode().splitlines()]
    return sum(float(line[1]) for line in lines if line[0].partition("{")[0] == name)


def rows(m: int) -> bytes:
    data = [1.0] * (64 * m)
    return json.dumps(
        {"inputs": [{"name": "A", "datatype": "FP32", "shape": [m, 64], "data": data}]}
    ).encode()


class Load:
    """Clients on kept connections until the server is gone; what became of their requests."""

    def __init__(self, server: Server, rest: int, grpc_calls: int, largest: int = 4) -> None:
        self.outcomes: Counter[str] = Counter()
        self._server = server
        self._largest = largest
        self._lock = threading.Lock()
        self._threads = concurrent.futures.ThreadPoolExecutor(rest + grpc_calls)
        self._clients = [self._threads.submit(self._rest, number) for number in range(rest)]
        self._clients += [self._threads.submit(self._grpc, number) for number in range(grpc_calls)]

    def until_gone(self) -> None:
        for client in self._clients:
            client.result(timeout=60)
        self._threads.shutdown()

    def _note(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1

    def _rest(self, number: int) -> None:
        """Even ones on a connection for each request, odd ones on one that is kept."""
        body = rows(number % self._largest + 1)
        connection = http.client.HTTPConnection(self._server.http, timeout=60)
        while True:
            try:
                connection.request("POST", "/v2/models/small/infer", body)
                answer = connection.getresponse()
                answer.read()
                self._note("ok" if answer.status == 200 else f"REST {answer.status}")
            except ConnectionRefusedError:
                return
            except (http.client.HTTPException, OSError):  # it was closed: was the request seen? The log says
                self._note("closed")
                connection.close()
            if number % 2 == 0:
                connection.close()

    def _grpc(self, number: int) -> None:
        m = number % self._largest + 1
        request = messages.ModelInferRequest(model_name="small")
        request.inputs.add(name="A", datatype="FP32", shape=[m, 64]).contents.fp32_contents.extend(
            [1.0] * 64 * m
        )
        with grpc.insecure_channel(self._server.grpc) as channel:
            stub = GRPCInferenceServiceStub(channel)
            while True:
                try:
                    stub.ModelInfer(request, timeout=60)
                    self._note("ok")
                except grpc.RpcError as error:
                    # CANCELLED: gRPC took it as it was stopped, and the server never saw it.
                    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                        return
                    self._note(f"gRPC {error.code()}")


def inferences(tmp_path: Path) -> Counter[str]:
    """From the access log, by outcome."""
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    return Counter(line["outcome"] for line in lines if line["operation"] in ("infer", "ModelInfer"))


def left_of(mark: str) -> list[str]:
    """Processes that were started with this in their environment."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                found.append(process.name)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_term_under_load(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the server says it answered, a client has; the cache is there, and nobody is left behind."""
    mark = os.urandom(8).hex()
    monkeypatch.setenv(MARK, mark)
    shapes = tmp_path / "shapes.json"
    shapes.write_text(json.dumps([{"A": [2, 64]}]))
    with serving(tmp_path, model, "--warm", str(shapes), "--grace-seconds", "20") as server:
        assert left_of(mark)
        load = Load(server, rest=6, grpc_calls=4)
        until(lambda: load.outcomes["ok"] > 200, "requests come")
        began = time.monotonic()
        code, _ = server.end()
        assert time.monotonic() - began < 20.0
        load.until_gone()
    assert code == 0
    assert set(load.outcomes) <= {"ok", "closed"}, load.outcomes
    assert inferences(tmp_path) == {"ok": load.outcomes["ok"]}
    assert entries(tmp_path) == 1
    assert left_of(mark) == []


def entries(tmp_path: Path) -> int:
    """Of the cache's file, which has to be whole."""
    document = json.loads((tmp_path / "state" / "small.tune.json").read_text())
    return sum(len(machine["entries"]) for machine in document["machines"])


def test_kill_under_load_loses_no_more_than_the_last_moments(tmp_path: Path, model: Path) -> None:
    shapes = tmp_path / "shapes.json"
    shapes.write_text(json.dumps([{"A": [m, 64]} for m in (1, 2, 3)]))
    cache = tmp_path / "state" / "small.tune.json"
    with serving(tmp_path, model, "--warm", str(shapes), "--save-every", "0.1") as server:
        load = Load(server, rest=3, grpc_calls=2, largest=3)
        until(
            lambda: load.outcomes["ok"] > 50 and cache.exists() and entries(tmp_path) == 3,
            "requests come, and the cache is saved",
        )
        assert server.end(signal.SIGKILL)[0] == -signal.SIGKILL
        load.until_gone()
    assert entries(tmp_path) == 3
    with serving(tmp_path, model, "--warm", str(shapes), "--save-every", "0.1") as server:
        assert metric(server, "tunableop_tuner_tuned_total") == 0.0
        assert metric(server, "tunableop_tuner_entries") == 3.0
        load = Load(server, rest=1, grpc_calls=1, largest=3)
        until(lambda: load.outcomes["ok"] > 20, "it answers")
        assert server.end()[0] == 0
        load.until_gone()


def test_kill_while_the_cache_is_saved(tmp_path: Path, model: Path) -> None:
    """At any moment: the file is whole, no lock is left, and each start knows what was saved."""
    saved = 0
    first = 1
    for turn in range(3):
        options = ("--save-every", "0.01", "--option", "tuning=online", "--option", "max_tuning_ms=1")
        with serving(tmp_path, model, *options) as server:
            assert metric(server, "tunableop_tuner_entries") == saved
            connection = http.client.HTTPConnection(server.http, timeout=60)
            end = time.monotonic() + 0.15 + 0.037 * turn
            while time.monotonic() < end or saved == count(tmp_path):
                connection.request("POST", "/v2/models/small/infer", rows(first))
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                first += 1
            server.process.kill()
            server.process.wait(timeout=60)
            connection.close()
        assert count(tmp_path) > saved
        saved = count(tmp_path)
    with serving(tmp_path, model) as server:
        assert metric(server, "tunableop_tuner_entries") == saved
        assert server.end()[0] == 0


def count(tmp_path: Path) -> int:
    try:
        return entries(tmp_path)
    except FileNotFoundError:
        return 0
