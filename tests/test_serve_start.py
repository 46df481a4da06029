"""What a server is told wrongly, and who shows which certificate."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from support.graphs import matmul_model
from support.served import Server, fake, started
from support.waiting import until

grpc = pytest.importorskip("grpc", reason="the extra 'serve' is not installed")
from onnxruntime_ep_tunableop.serve.wire import open_inference_pb2 as messages  # noqa: E402
from onnxruntime_ep_tunableop.serve.wire.open_inference_pb2_grpc import GRPCInferenceServiceStub  # noqa: E402

SERVE = [sys.executable, "-m", "onnxruntime_ep_tunableop", "serve", "--http-port", "0", "--grpc-port", "0"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    b = np.ones((8, 5), np.float32)
    path.write_bytes(matmul_model(["m", 8], None, constants={"B": b}).SerializeToString())
    return path


class Authority:
    """Makes certificates with openssl."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        self._openssl(
            "req", "-x509", *_curve(self.key), "-subj", f"/CN={name}", "-out", str(self.certificate)
        )

    def make(self, name: str, days: int = 1) -> tuple[Path, Path]:
        """A certificate for localhost, and its key. `days` below 0: it has expired."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        request, extension = self._folder / f"{name}.csr", self._folder / f"{name}.txt"
        extension.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
        self._openssl("req", *_curve(key), "-subj", "/CN=localhost", "-out", str(request))
        signed = ["-CA", str(self.certificate), "-CAkey", str(self.key), "-extfile", str(extension)]
        times = ["-days", str(days)]
        self._openssl("x509", "-req", "-in", str(request), *signed, *times, "-out", str(certificate))
        return certificate, key

    def _openssl(self, *arguments: str) -> str:
        openssl = shutil.which("openssl")
        if openssl is None:
            pytest.skip("openssl, which makes certificates, is not here")
        done = subprocess.run([openssl, *arguments], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout + done.stderr


def _curve(key: Path) -> list[str]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key)]


def over_rest(server: Server, authority: Authority, shown: tuple[Path, Path] | None) -> bool:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if shown is not None:
        context.load_cert_chain(*shown)
    try:
        with urllib.request.urlopen(f"https://{server.http}/v2", context=context, timeout=60) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def over_grpc(server: Server, authority: Authority, shown: tuple[Path, Path] | None) -> bool:
    certificate, key = (None, None) if shown is None else (path.read_bytes() for path in shown)
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes(), key, certificate)
    with grpc.secure_channel(server.grpc, credentials) as channel:
        try:
            stub = GRPCInferenceServiceStub(channel)
            return bool(stub.ServerLive(messages.ServerLiveRequest(), timeout=60).live)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False


def test_clients_show_a_certificate(tmp_path: Path) -> None:
    right, wrong = Authority(tmp_path, "right"), Authority(tmp_path, "wrong")
    own = right.make("server")
    with fake("--tls", *map(str, own), "--tls-client-ca", str(right.certificate)) as server:
        for ask in (over_rest, over_grpc):
            assert ask(server, right, right.make("client"))
            assert not ask(server, right, None)
            assert not ask(server, right, wrong.make("stranger"))
            assert not ask(server, wrong, right.make("client")), "it asks who the server is"
            assert ask(server, right, right.make("client")), "it lives on"
        assert server.end()[0] == 0


def test_expired_certificates_are_refused(tmp_path: Path) -> None:
    right = Authority(tmp_path, "right")
    old = right.make("old", days=-1)
    with fake("--tls", *map(str, right.make("server")), "--tls-client-ca", str(right.certificate)) as server:
        assert not over_rest(server, right, old)
        assert not over_grpc(server, right, old)
        assert over_rest(server, right, right.make("client"))


def usage(*arguments: str | Path, code: int = 2) -> str:
    done = subprocess.run(
        [*SERVE, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_key_that_is_of_another_certificate(tmp_path: Path, model: Path) -> None:
    right = Authority(tmp_path, "right")
    certificate, _ = right.make("one")
    _, key = right.make("two")
    said = usage(f"a={model}", "--tls-certificate", certificate, "--tls-key", key)
    assert "--tls-key" in said
    assert "mismatch" in said.lower()


def test_files_that_are_no_certificates(tmp_path: Path, model: Path) -> None:
    certificate, key = Authority(tmp_path, "right").make("one")
    (tmp_path / "notes").write_text("nothing of the kind")
    for arguments in (
        ("--tls-certificate", tmp_path / "notes", "--tls-key", key),
        ("--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", tmp_path / "notes"),
    ):
        assert f"in PEM, found '{tmp_path / 'notes'}'" in usage(f"a={model}", *arguments)


@pytest.mark.parametrize(
    ("content", "says"), [("", "expected a token"), ("a b", "without spaces"), (None, "--token")]
)
def test_token_files(tmp_path: Path, model: Path, content: str | None, says: str) -> None:
    path = tmp_path / "token"
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    assert says in usage(f"a={model}", "--token-file", path, "--state", tmp_path / "state")


@pytest.mark.parametrize("content", ["{", '[{"A": "x"}]', '[{"A": [-1]}]', "7"])
def test_files_of_shapes(tmp_path: Path, model: Path, content: str) -> None:
    path = tmp_path / "shapes.json"
    path.write_text(content)
    assert "warm" in usage(f"a={model}", "--warm", path, "--state", tmp_path / "state")


def test_a_state_folder_that_cannot_be_written_to(tmp_path: Path, model: Path) -> None:
    (tmp_path / "file").touch()
    assert "can be written to" in usage(f"a={model}", "--state", tmp_path / "file")
    assert "can be written to" in usage(f"a={model}", "--state", tmp_path / "file" / "below")


def test_names_and_numbers(tmp_path: Path, model: Path) -> None:
    assert "'a' more than once" in usage(f"a={model}", f"a={model}", "--state", tmp_path)
    assert "expected a number above 0, found 'abc'" in usage(f"a={model}", "--max-body-mib", "abc")


@pytest.mark.parametrize("which", ["http", "grpc"])
def test_ports_that_are_taken(tmp_path: Path, model: Path, which: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = usage(f"a={model}", "--state", tmp_path, f"--{which}-port", port, code=1)
    assert port in said
    assert "in use" in said


def test_a_model_that_is_broken_stops_no_other(tmp_path: Path, model: Path) -> None:
    """The server lives, and says what is wrong: it is not ready, which probes see."""
    (tmp_path / "broken.onnx").write_text("no model")
    (tmp_path / "empty").mkdir()
    models = [f"good={model}", f"broken={tmp_path / 'broken.onnx'}", f"empty={tmp_path / 'empty'}"]
    with started([*SERVE, *models, "--state", str(tmp_path / "state"), "--access-log", "off"]) as server:

        def reasons() -> dict[str, str]:
            asked = urllib.request.Request(f"http://{server.http}/v2/repository/index", method="POST")
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return {one["name"]: f"{one['state']} {one['reason']}" for one in json.load(answer)}

        until(lambda: not any("LOADING" in one for one in reasons().values()), "all were tried")
        found = reasons()
        assert found["good"].startswith("READY")
        assert "cannot be loaded" in found["broken"]
        assert "found neither" in found["empty"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://{server.http}/v2/health/ready", timeout=60)
        assert caught.value.code == 503
        caught.value.close()
        body = {"inputs": [{"name": "A", "datatype": "FP32", "shape": [1, 8], "data": [1] * 8}]}
        asked = urllib.request.Request(
            f"http://{server.http}/v2/models/good/infer",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            assert answer.status == 200
        assert server.end(signal.SIGTERM)[0] == 0
