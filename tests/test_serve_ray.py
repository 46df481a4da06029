"""`tunableop serve --engine ray` on a cluster of its own with two replicas, in the order of the tests."""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import matmul_model
from support.served import Server, started
from support.waiting import until

pytest.importorskip("ray.serve", reason="the extra 'ray' is not installed")
http_client = pytest.importorskip("tritonclient.http", reason="the extra 'test' is not installed")
grpc_client = pytest.importorskip("tritonclient.grpc", reason="the extra 'test' is not installed")

pytestmark = pytest.mark.ray

B = np.random.default_rng(2).standard_normal((8, 5), dtype=np.float32)
#: Seconds; on a machine with much else to do, Ray's processes need some to start.
PATIENCE = 180.0
WARM_ROWS = 7


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, state: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "small" / "1").mkdir(parents=True)
    model = matmul_model(["m", 8], None, constants={"B": B})
    (folder / "small" / "1" / "model.onnx").write_bytes(model.SerializeToString())
    shapes = folder / "shapes.json"
    shapes.write_text(json.dumps([{"A": [WARM_ROWS, 8]}]))
    command = [sys.executable, "-m", "onnxruntime_ep_tunableop", "serve", "--repository", str(folder)]
    command += ["--engine", "ray", "--replicas", "2", "--object-store-mib", "100", "--state", str(state)]
    command += ["--http-port", "0", "--grpc-port", "0", "--access-log", "off", "--grace-seconds", "60"]
    command += ["--option", "tuning=online", "--max-batch", "1", "--warm", str(shapes)]
    with started(command) as running:
        try:
            until(lambda: read(running, "/v2/health/ready")[0] == 200, "it is ready", PATIENCE)
            until(lambda: len(replicas(running)) == 2, "both replicas report", PATIENCE)
            yield running
        finally:
            if running.process.poll() is None:
                running.end(seconds=PATIENCE)


def read(server: Server, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{server.http}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def replicas(server: Server) -> list[dict[str, Any]]:
    status, text = read(server, "/v2/models/small/tuning")
    return list(json.loads(text)["replicas"]) if status == 200 else []


def tuned(server: Server) -> list[int]:
    return sorted(replica["stats"]["tuned"] for replica in replicas(server))


def ask(module: Any, client: Any, rows: int, **options: Any) -> None:
    a = np.random.default_rng(rows).standard_normal((rows, 8), dtype=np.float32)
    tensor = module.InferInput("A", [rows, 8], "FP32")
    if module is http_client:
        tensor.set_data_from_numpy(a, binary_data=options.get("binary", True))
        output = module.InferRequestedOutput("Y", binary_data=options.get("binary", True))
    else:
        tensor.set_data_from_numpy(a)
        output = module.InferRequestedOutput("Y")
    found = client.infer("small", [tensor], outputs=[output]).as_numpy("Y")
    np.testing.assert_allclose(found, a @ B, rtol=1e-4, atol=1e-4)


def descendants(process: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_one_replica_warmed_up_no_other_one_measures(server: Server) -> None:
    until(lambda: all(one["stats"]["entries"] == 1 for one in replicas(server)), "both know the shape")
    assert tuned(server) == [0, 1]


@pytest.mark.parametrize("path", ["json", "binary", "grpc", "stream"])
def test_every_client_path(server: Server, path: str) -> None:
    if path in ("json", "binary"):
        with http_client.InferenceServerClient(server.http) as client:
            assert client.get_model_metadata("small")["inputs"][0]["shape"] == [-1, 8]
            ask(http_client, client, WARM_ROWS, binary=path == "binary")
        return
    with grpc_client.InferenceServerClient(server.grpc) as client:
        if path == "grpc":
            assert client.get_model_metadata("small").inputs[0].shape == [-1, 8]
            ask(grpc_client, client, WARM_ROWS)
            return
        tensor = grpc_client.InferInput("A", [WARM_ROWS, 8], "FP32")
        tensor.set_data_from_numpy(np.ones((WARM_ROWS, 8), np.float32))
        answers: list[Any] = []
        client.start_stream(lambda result, error: answers.append((result, error)))
        for _ in range(3):
            client.async_stream_infer("small", [tensor])
        until(lambda: len(answers) == 3, "the stream answers")
        client.stop_stream()
        assert [error for _, error in answers] == [None] * 3


@pytest.mark.parametrize(
    ("name", "tensor", "data", "http", "grpc"),
    [
        ("none", "A", np.ones((1, 8), np.float32), r"\[404\]", "NOT_FOUND"),
        ("small", "B", np.ones((1, 8), np.float32), r"\[400\]", "INVALID_ARGUMENT"),
        ("small", "A", np.ones((1, 8)), r"\[400\]", "INVALID_ARGUMENT"),
        ("small", "A", np.ones((1, 7), np.float32), r"\[400\]", "INVALID_ARGUMENT"),
    ],
)
def test_errors_of_replicas_are_errors_of_the_protocol(
    server: Server, name: str, tensor: str, data: Any, http: str, grpc: str
) -> None:
    kind = "FP64" if data.dtype == np.float64 else "FP32"
    for module, address, words in ((http_client, server.http, http), (grpc_client, server.grpc, grpc)):
        sent = module.InferInput(tensor, list(data.shape), kind)
        sent.set_data_from_numpy(data)
        with module.InferenceServerClient(address) as client, pytest.raises(Exception, match=words):
            client.infer(name, [sent])


def test_a_shape_that_one_replica_met_no_other_one_measures(server: Server) -> None:
    with http_client.InferenceServerClient(server.http) as client:
        ask(http_client, client, 3)
        until(lambda: all(one["stats"]["entries"] == 2 for one in replicas(server)), "both know the shape")
        hits = {one["pid"]: one["stats"]["hits"] for one in replicas(server)}

        def both_served() -> bool:
            for _ in range(10):
                ask(http_client, client, 3)
            return all(one["stats"]["hits"] > hits[one["pid"]] for one in replicas(server))

        until(both_served, "both replicas have run it")
    assert sum(tuned(server)) == 2


def test_metrics_are_sums(server: Server) -> None:
    served = sum(one["serving"]["requests"].get("ok", 0) for one in replicas(server))
    assert served > 0
    text = read(server, "/metrics")[1]
    assert f'tunableop_model_requests_total{{model="small",outcome="ok",version="1"}} {served}.0' in text
    assert 'tunableop_tuner_tuned_total{model="small",version="1"} 2.0' in text


def test_loading_and_unloading_is_for_all(server: Server) -> None:
    with http_client.InferenceServerClient(server.http) as client:
        client.unload_model("small")
        assert not client.is_model_ready("small")
        with pytest.raises(Exception, match=r"\[503\]"):
            ask(http_client, client, 3)
        client.load_model("small")
        assert client.is_model_ready("small")
        for _ in range(20):
            ask(http_client, client, 3)
        with pytest.raises(Exception, match=r"\[404\]"):
            client.load_model("none")
    assert tuned(server) == [0, 0]  # sessions made anew, which found all in the file


def test_requests_at_a_replica_that_is_killed_are_run_on_another_one(server: Server) -> None:
    """It is stopped first, so that there are some for sure."""
    over = threading.Event()

    def keep_asking(module: Any, address: str) -> int:
        number = 0
        with module.InferenceServerClient(address) as client:
            while not over.is_set():
                ask(module, client, 3)
                number += 1
        return number

    before = {one["pid"] for one in replicas(server)}
    victim = min(before)
    fronts = ((http_client, server.http), (grpc_client, server.grpc))
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(keep_asking, *fronts[number % 2]) for number in range(8)]
        try:
            os.kill(victim, signal.SIGSTOP)
            try:
                until(lambda: in_flight(server) >= 3, "requests wait at the one that is stopped")
            finally:
                os.kill(victim, signal.SIGKILL)
            until(
                lambda: len({one["pid"] for one in replicas(server)} - before) == 1,
                "there is another one in its place",
                PATIENCE,
            )
        finally:
            over.set()
        assert all(one.result(timeout=PATIENCE) > 0 for one in asking)
    assert all(one["stats"]["tuned"] == 0 for one in replicas(server))  # the new one, too


def in_flight(server: Server) -> float:
    """The least of some: what stays is at the replica that does not answer."""
    found = []
    for _ in range(5):
        lines = read(server, "/metrics")[1].splitlines()
        found.append(
            float(next(line for line in lines if line.startswith("tunableop_in_flight ")).split()[1])
        )
    return min(found)


def test_at_the_end_everything_is_answered_saved_and_gone(server: Server, state: Path) -> None:
    refused = threading.Event()

    def ask_until_refused() -> tuple[int, list[str]]:
        answered, wrong = 0, []
        while True:
            try:
                with http_client.InferenceServerClient(server.http) as client:
                    ask(http_client, client, 3)
                answered += 1
            except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
                refused.set()
                return answered, wrong
            except Exception as error:
                wrong.append(repr(error))
                if len(wrong) > 3:
                    return answered, wrong

    processes = descendants(server.process.pid)
    assert processes
    for path in state.glob("*.json"):
        path.unlink()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask_until_refused) for _ in range(4)]
        served = sum(one["serving"]["requests"].get("ok", 0) for one in replicas(server))
        until(
            lambda: sum(one["serving"]["requests"].get("ok", 0) for one in replicas(server)) > served,
            "requests come",
        )
        assert server.end(seconds=PATIENCE)[0] == 0
        for one in asking:
            answered, wrong = one.result(timeout=PATIENCE)
            assert answered > 0
            assert not wrong
    until(lambda: not any(runs(one) for one in processes), "Ray's processes are gone")
    results = json.loads((state / "small.tune.json").read_text())
    assert len(results["machines"][0]["entries"]) == 2
