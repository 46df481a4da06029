"""`tunableop serve`: models in, answers out, what was learned is kept."""

from __future__ import annotations

import asyncio
import concurrent.futures
import http.client
import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import matmul_model
from support.served import Server, started
from support.waiting import until

http_client = pytest.importorskip("tritonclient.http", reason="the extra 'test' is not installed")
grpc_client = pytest.importorskip("tritonclient.grpc", reason="the extra 'test' is not installed")

B = np.random.default_rng(2).standard_normal((8, 5), dtype=np.float32)
SERVE = [sys.executable, "-m", "onnxruntime_ep_tunableop", "serve"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(matmul_model(["m", 8], None, constants={"B": B}).SerializeToString())
    return path


def serving(tmp_path: Path, *arguments: str) -> AbstractContextManager[Server]:
    ports = ("--http-port", "0", "--grpc-port", "0", "--access-log", str(tmp_path / "access.log"))
    return started([*SERVE, *ports, "--state", str(tmp_path / "state"), *arguments])


def read(server: Server, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{server.http}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def wait_until_ready(server: Server) -> None:
    until(lambda: read(server, "/v2/health/ready")[0] == 200, "the server is ready")


def product(module: Any, address: str, name: str, rows: int) -> None:
    a = np.random.default_rng(rows).standard_normal((rows, 8), dtype=np.float32)
    tensor = module.InferInput("A", [rows, 8], "FP32")
    tensor.set_data_from_numpy(a)
    with module.InferenceServerClient(address) as client:
        found = client.infer(name, [tensor]).as_numpy("Y")
    np.testing.assert_allclose(found, a @ B, rtol=1e-4, atol=1e-4)


def test_a_model_from_its_file_to_its_answers(tmp_path: Path, model: Path) -> None:
    with serving(tmp_path, f"small={model}") as server:
        wait_until_ready(server)
        product(http_client, server.http, "small", 3)
        product(grpc_client, server.grpc, "small", 2)
        assert json.loads(read(server, "/v2/models/small")[1])["inputs"][0]["shape"] == [-1, 8]
        text = read(server, "/metrics")[1]
        assert 'tunableop_model_requests_total{model="small",outcome="ok",version="1"} 2.0' in text
        assert 'tunableop_model_batch_rows_bucket{le="4.0",model="small",version="1"} 2.0' in text
        assert 'tunableop_tuner_fallbacks_total{model="small"' in text
        statistics = json.loads(read(server, "/v2/models/small/stats")[1])["model_stats"]
        assert statistics[0]["inference_stats"]["success"]["count"] == 2
        with grpc_client.InferenceServerClient(server.grpc) as client:
            assert client.get_inference_statistics("small").model_stats[0].inference_count == 2
        assert json.loads(read(server, "/v2/models/small/tuning")[1])["results"]["schema"] == 2
        assert server.end()[0] == 0
    log = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    assert [line["protocol"] for line in log if line["model"] == "small"][:2] == ["rest", "grpc"]


def test_what_was_learned_is_kept(tmp_path: Path, model: Path) -> None:
    shapes = tmp_path / "shapes.json"
    shapes.write_text(json.dumps([{"A": [7, 8]}]))
    with serving(tmp_path, f"small={model}", "--warm", str(shapes)) as server:
        wait_until_ready(server)
        assert 'tunableop_tuner_entries{model="small",version="1"} 1.0' in read(server, "/metrics")[1]
        assert server.end()[0] == 0
    assert len(list((tmp_path / "state").glob("small.*json"))) == 1
    with serving(tmp_path, f"small={model}") as server:
        wait_until_ready(server)
        product(http_client, server.http, "small", 7)
        text = read(server, "/metrics")[1]
        assert 'tunableop_tuner_entries{model="small",version="1"} 1.0' in text
        assert 'tunableop_tuner_tuned_total{model="small",version="1"} 0.0' in text


def test_a_repository(tmp_path: Path, model: Path) -> None:
    for version in ("1", "2"):
        folder = tmp_path / "models" / "one" / version
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(model.read_bytes())
    with serving(tmp_path, "--repository", str(tmp_path / "models"), "--versions", "all") as server:
        wait_until_ready(server)
        assert json.loads(read(server, "/v2/models/one")[1])["versions"] == ["1", "2"]
        with http_client.InferenceServerClient(server.http) as client:
            client.unload_model("one")
            assert not client.is_model_ready("one")
            client.load_model("one")
            assert client.is_model_ready("one", "2")


def test_wrong_tensors_are_refused_in_words(tmp_path: Path, model: Path) -> None:
    with serving(tmp_path, f"small={model}") as server:
        wait_until_ready(server)
        with http_client.InferenceServerClient(server.http) as client:
            for name, datatype, data in (
                ("B", "FP32", np.ones((1, 8), np.float32)),
                ("A", "FP64", np.ones((1, 8))),
                ("A", "FP32", np.ones((1, 7), np.float32)),
                ("A", "FP32", np.ones(8, np.float32)),
            ):
                tensor = http_client.InferInput(name, list(data.shape), datatype)
                tensor.set_data_from_numpy(data)
                with pytest.raises(Exception, match=r"\[400\]"):
                    client.infer("small", [tensor])
        product(http_client, server.http, "small", 3)


def test_term_under_load_answers_what_was_accepted(tmp_path: Path, model: Path) -> None:
    """Each request on a connection of its own gets an answer, or was never accepted."""
    body = json.dumps({"inputs": [{"name": "A", "datatype": "FP32", "shape": [1, 8], "data": [1] * 8}]})

    def ask_until_refused(server: Server) -> tuple[int, int]:
        answered = wrong = 0
        while True:
            connection = http.client.HTTPConnection(server.http, timeout=60)
            try:
                connection.request("POST", "/v2/models/small/infer", body)
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    answered += 1
                else:
                    wrong += 1
            except http.client.RemoteDisconnected:  # it was accepted, and then closed
                wrong += 1
            except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
                return answered, wrong
            finally:
                connection.close()

    with serving(tmp_path, f"small={model}") as server, concurrent.futures.ThreadPoolExecutor(4) as threads:
        wait_until_ready(server)
        clients = [threads.submit(ask_until_refused, server) for _ in range(4)]
        until(lambda: 'outcome="ok"' in read(server, "/metrics")[1], "requests come")
        assert server.end()[0] == 0
        for client in clients:
            answered, wrong = client.result(timeout=60)
            assert answered > 0
            assert wrong == 0


def usage(*arguments: str) -> str:
    done = subprocess.run([*SERVE, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "NAME=PATH, or --repository"),
        (("small",), "expected NAME=PATH, found 'small'"),
        (("small=nowhere.onnx",), "found none at 'nowhere.onnx'"),
        (("--repository", "nowhere"), "found none at 'nowhere'"),
        (("--http-port", "off", "--grpc-port", "off"), "nothing would be served"),
        (("--http-port", "x"), "expected a port"),
        (("--tls-key", "k"), "go together"),
        (("--tls-certificate", "c", "--tls-key", "k"), "No such file or directory: 'c'"),
        (("--token-file", "nowhere"), "--token-file"),
        (("--warm", "nowhere.json", "a=b"), "--warm"),
        (("--repository", ".", "--option", "x"), "KEY=VALUE"),
        (("--repository", ".", "--max-batch", "0"), "--max-batch: expected a whole number"),
        (("--repository", ".", "--option", "tunning=off"), "--option: there is no option 'tunning'"),
        (("--max-requests", "0"), "from 1 up"),
        (("--repository", ".", "--replicas", "2"), "--replicas: only with --engine ray"),
        (("--autoscale", "3:2"), "MIN:MAX"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], says: str) -> None:
    assert says in usage(*arguments)


def test_without_the_extra_it_says_what_is_missing(model: Path) -> None:
    script = (
        "import sys; sys.modules['starlette'] = None\n"
        "from onnxruntime_ep_tunableop.cli import main\n"
        f"sys.exit(main(['serve', 'small={model}']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "onnxruntime-ep-tunableop[serve]" in done.stderr


@pytest.mark.parametrize(
    ("stuck", "lost", "code", "left"),
    [(True, False, 0, 0), (True, True, 0, 1), (True, False, 1, 1), (False, False, 0, None)],
)
def test_threads_that_are_still_in_onnxruntime_are_left(
    monkeypatch: pytest.MonkeyPatch, stuck: bool, lost: bool, code: int, left: int | None
) -> None:
    """An ordinary exit would end in a crash."""
    from onnxruntime_ep_tunableop.cli import serve as command
    from onnxruntime_ep_tunableop.serve import engine, server

    class Stuck:
        def __init__(self) -> None:
            self.stuck = stuck
            self.lost = lost

    async def start(settings: object) -> Stuck:
        return Stuck()

    async def served(*_: object) -> int:
        return code

    exits: list[int] = []
    monkeypatch.setattr(engine.Engine, "start", start)
    monkeypatch.setattr(server, "serve", served)
    monkeypatch.setattr(command.os, "_exit", exits.append)
    assert asyncio.run(command._serve(None, None, None)) == code  # type: ignore[arg-type]
    assert exits == ([] if left is None else [left])
