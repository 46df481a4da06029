"""What clients of a server do, good ones and bad ones, one thing at a time: for `benchmarks.serve_soak`.

Every answer that should be right is compared with numpy.
"""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import random
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from onnxruntime_ep_tunableop.serve.wire import open_inference_pb2 as messages
from onnxruntime_ep_tunableop.serve.wire.open_inference_pb2_grpc import GRPCInferenceServiceStub

from benchmarks import common
from benchmarks.small_models import Perceptron
from benchmarks.soak import Sizes

NET, OTHER = "net", "other"
TOLERANCE = 1e-5  # relative to the largest value
TIMEOUT = 60.0  # seconds
LENGTH = "inference-header-content-length"


class Clients:
    """Use `act` again and again. `done` counts what was done, `wrong` says what went wrong."""

    def __init__(
        self, http_address: str, grpc_address: str, net: Perceptron, largest: int, seed: int
    ) -> None:
        self._http = http_address
        self._channel = grpc.insecure_channel(grpc_address)
        self._stub: Any = GRPCInferenceServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._net = net
        self._rows = net.feed(largest)["x"]
        self._sizes = Sizes(largest, seed)
        self._draw = random.Random(seed)
        self._threads = concurrent.futures.ThreadPoolExecutor(8)
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._acts: list[tuple[Callable[[], None], int]] = [
            (self.as_json, 8),
            (self.binary, 8),
            (self.raw, 8),
            (self.stream, 4),
            (self.burst, 4),
            (self.refused, 6),
            (self.refused_raw, 3),
            (self.malformed, 3),
            (self.cut_in_the_body, 3),
            (self.gone, 4),
            (self.unread, 3),
            (self.cancelled, 3),
            (self.abandoned, 2),
            (self.reload, 1),
            (self.ask_other, 3),
            (self.look, 2),
        ]

    def close(self) -> None:
        """Hangs up."""
        self._threads.shutdown()
        self._channel.close()

    def act(self) -> None:
        """One of them, drawn by its weight."""
        acts, weights = zip(*self._acts, strict=True)
        (act,) = self._draw.choices(acts, weights)
        try:
            act()
        except Exception as error:
            self.wrong.append(f"{act.__name__}: {error!r:.300}")
        self.done[act.__name__] += 1

    def every(self) -> None:
        """Each of them once, the largest request first.

        What the heaps grow to for it must not come in the midst.
        """
        self._check(self._rows, self._infer(self._rows))
        for act, _ in self._acts:
            act()
            self.done[act.__name__] += 1

    def as_json(self) -> None:
        """Numbers as text."""
        x = self._some()
        tensor = {"name": "x", "datatype": "FP32", "shape": x.shape, "data": x.ravel().tolist()}
        body = json.dumps({"inputs": [tensor]}).encode()
        _, answer = self._post(NET, body, expect=200)
        (output,) = json.loads(answer)["outputs"]
        self._check(x, np.array(output["data"], np.float32).reshape(output["shape"]))

    def binary(self) -> None:
        """The binary extension."""
        x = self._some()
        self._check(x, self._infer(x))

    def raw(self) -> None:
        """gRPC."""
        x = self._some()
        self._check(x, _tensor(self._stub.ModelInfer(_message(NET, x), timeout=TIMEOUT)))

    def stream(self) -> None:
        """Three requests on a stream, one of them wrong."""
        good = [self._some(), self._some()]
        asked = [_message(NET, good[0]), _message(NET, good[0][:, 1:]), _message(NET, good[1])]
        answers = list(self._stub.ModelStreamInfer(iter(asked), timeout=TIMEOUT))
        self._check(good[0], _tensor(answers[0].infer_response))
        assert answers[1].error_message, "expected an error"
        self._check(good[1], _tensor(answers[2].infer_response))

    def burst(self) -> None:
        """Requests at a time, for batches of several sizes."""
        for done in [self._threads.submit(self._one_of_burst, self._some()) for _ in range(8)]:
            done.result()

    def refused(self) -> None:
        """Wrong shape, and a model that is not there."""
        self._post(NET, *_binary(self._some()[:, 1:]), expect=400)
        self._post(f"not{self._draw.randrange(10**6)}", *_binary(self._some()), expect=404)

    def refused_raw(self) -> None:
        """The same over gRPC."""
        for message, code in (
            (_message(NET, self._some()[:, 1:]), grpc.StatusCode.INVALID_ARGUMENT),
            (_message("not", self._some()), grpc.StatusCode.NOT_FOUND),
        ):
            try:
                self._stub.ModelInfer(message, timeout=TIMEOUT)
                raise AssertionError(f"expected {code}")
            except grpc.RpcError as error:
                if error.code() is not code:
                    raise

    def malformed(self) -> None:
        """No JSON, and no HTTP."""
        self._post(NET, b'{"inputs": [', expect=400)
        with self._connect() as one:
            one.sendall(b"what is this\r\n\r\n")
            assert b"400" in one.recv(4096)

    def cut_in_the_body(self) -> None:
        """Gone before the request is complete."""
        with self._connect() as one:
            one.sendall(self._request(self._some())[:-7])

    def gone(self) -> None:
        """Gone while it is asked for."""
        with self._connect() as one:
            one.sendall(self._request(self._some()))
            _reset_at_close(one)

    def unread(self) -> None:
        """Gone while the largest answer is written."""
        with self._connect() as one:
            one.sendall(self._request(self._rows))
            one.recv(1)
            _reset_at_close(one)

    def cancelled(self) -> None:
        """A call that is not wanted any more."""
        call = self._stub.ModelInfer.future(_message(NET, self._some()), timeout=TIMEOUT)
        call.cancel()

    def abandoned(self) -> None:
        """A stream whose answers nobody takes."""
        call = self._stub.ModelStreamInfer(iter([_message(NET, self._rows)] * 3), timeout=TIMEOUT)
        next(call)
        call.cancel()

    def reload(self) -> None:
        """Loads the second model anew, or unloads it."""
        what = self._draw.choice(["load", "load", "unload"])
        self._send("POST", f"/v2/repository/models/{OTHER}/{what}", expect=200)

    def ask_other(self) -> None:
        """The second model, if it is there."""
        x = self._some()
        status, _ = self._post(OTHER, *_binary(x))
        assert status in (200, 503), status

    def look(self) -> None:
        """What an operator looks at."""
        for path in ("/metrics", f"/v2/models/{NET}/tuning", f"/v2/models/{NET}/stats", f"/v2/models/{NET}"):
            self._send("GET", path, expect=200)
        self._send("POST", "/v2/repository/index", expect=200)

    def _some(self) -> NDArray[np.float32]:
        m = self._sizes()
        first = self._draw.randrange(len(self._rows) - m + 1)
        x: NDArray[np.float32] = self._rows[first : first + m]
        return x

    def _one_of_burst(self, x: NDArray[np.float32]) -> None:
        self._check(x, self._infer(x))

    def _infer(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        body, headers = _binary(x)
        length, answer = self._post(NET, body, headers, expect=200)
        return np.frombuffer(answer[length:], np.float32).reshape(len(x), -1)

    def _check(self, x: NDArray[np.float32], found: NDArray[Any]) -> None:
        worst = common.difference([found], list(self._net.expected(x)[:1]))
        assert worst <= TOLERANCE, f"differs by {worst:.1e}"

    def _post(
        self, model: str, body: bytes, headers: dict[str, str] | None = None, expect: int | None = None
    ) -> tuple[int, bytes]:
        """The header's length, or the status where nothing is expected; and the body."""
        return self._send("POST", f"/v2/models/{model}/infer", body, headers, expect)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        expect: int | None = None,
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._http, timeout=TIMEOUT)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            content = answer.read()
            if expect is None:
                return answer.status, content
            assert answer.status == expect, f"{path}: {answer.status} {content[:200]!r}"
            return int(answer.headers.get(LENGTH, 0)), content
        finally:
            connection.close()

    def _connect(self) -> socket.socket:
        host, _, port = self._http.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=TIMEOUT)

    def _request(self, x: NDArray[np.float32]) -> bytes:
        body, headers = _binary(x)
        lines = [f"POST /v2/models/{NET}/infer HTTP/1.1", "host: x", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


def _binary(x: NDArray[np.float32]) -> tuple[bytes, dict[str, str]]:
    data = x.tobytes()
    tensor = {
        "name": "x",
        "datatype": "FP32",
        "shape": x.shape,
        "parameters": {"binary_data_size": len(data)},
    }
    header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return header + data, {LENGTH: str(len(header))}


def _message(model: str, x: NDArray[np.float32]) -> Any:
    message = messages.ModelInferRequest(model_name=model, raw_input_contents=[x.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=x.shape)
    return message


def _tensor(answer: Any) -> NDArray[Any]:
    flat = np.frombuffer(answer.raw_output_contents[0], np.float32)
    return flat.reshape(tuple(answer.outputs[0].shape))


def _reset_at_close(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
