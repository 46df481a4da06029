"""An engine without ONNX Runtime, for tests of the front ends: `python fake_engine.py` serves it.

Model `echo` gives every input back as an output of the same name; its input `wait` (if it comes) keeps the
answer back for so many seconds. At its end it says how many it answered.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnxruntime_ep_tunableop.serve.protocol import (
    DATATYPES,
    InferRequest,
    InferResponse,
    Kind,
    ModelMetadata,
    ModelState,
    ProtocolError,
    TensorMetadata,
)


class FakeEngine:
    """`Serving` for `echo` and a model `fails`."""

    def __init__(self) -> None:
        self.loaded = {"echo": True, "fails": True}
        self.down = False
        self.answered = 0
        self.cancelled = 0

    async def infer(self, request: InferRequest) -> InferResponse:
        self._known(request.model, request.version)
        if self.down:
            raise ProtocolError(Kind.UNAVAILABLE, "going down", 2.5)
        if request.model == "fails":
            raise RuntimeError("no answer from this one")
        kind = request.parameters.get("raise")
        if kind is not None:
            raise ProtocolError(Kind(kind), f"asked for: {kind}", 2.5)
        try:
            for tensor in request.inputs:
                if tensor.name == "wait":
                    await asyncio.sleep(float(tensor.data.reshape(-1)[0]))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        wanted = [output.name for output in request.outputs]
        known = {tensor.name: tensor for tensor in request.inputs}
        for name in wanted:
            if name not in known:
                raise ProtocolError(Kind.INVALID, f"expected an output of {sorted(known)}, found '{name}'")
        for tensor in request.inputs:
            assert tensor.data.dtype == DATATYPES[tensor.datatype], (tensor.datatype, tensor.data.dtype)
        self.answered += 1
        return InferResponse(
            "echo", "1", request.id, [replace(known[name], parameters={}) for name in wanted or known]
        )

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return not self.down

    def model_ready(self, name: str, version: str = "") -> bool:
        self._known(name, version, loaded=False)
        return self.loaded[name]

    def metadata(self, name: str, version: str = "") -> ModelMetadata:
        self._known(name, version)
        tensors = [TensorMetadata("x", "FP32", [-1, 3]), TensorMetadata("words", "BYTES", [-1])]
        return ModelMetadata(name, ["1"], "onnxruntime_onnx", tensors, tensors)

    def index(self) -> Sequence[ModelState]:
        return [
            ModelState(name, "1", "READY" if is_in else "UNAVAILABLE") for name, is_in in self.loaded.items()
        ]

    async def load(self, name: str) -> None:
        self._known(name, "", loaded=False)
        self.loaded[name] = True

    async def unload(self, name: str) -> None:
        self._known(name, "", loaded=False)
        self.loaded[name] = False

    def tuning(self, name: str, version: str = "") -> Mapping[str, Any]:
        self._known(name, version)
        return {"results": [], "counters": {"hits": 3}}

    async def shut_down(self, grace: float) -> None:
        self.down = True
        print(f"answered {self.answered}, cancelled {self.cancelled}", flush=True)

    def _known(self, name: str, version: str, loaded: bool = True) -> None:
        if name not in self.loaded or version not in ("", "1"):
            raise ProtocolError(
                Kind.NOT_FOUND, f"expected a model of {sorted(self.loaded)}, found '{name[:80]}'"
            )
        if loaded and not self.loaded[name]:
            raise ProtocolError(Kind.UNAVAILABLE, f"model '{name}' is not loaded")


def main() -> int:
    from onnxruntime_ep_tunableop.serve.access_log import AccessLog
    from onnxruntime_ep_tunableop.serve.front import FrontSettings
    from onnxruntime_ep_tunableop.serve.security import Tls
    from onnxruntime_ep_tunableop.serve.server import serve

    parser = argparse.ArgumentParser()
    parser.add_argument("--max-body", type=int, default=1 << 20)
    parser.add_argument("--grace", type=float, default=20.0)
    parser.add_argument("--token")
    parser.add_argument("--max-requests", type=int, default=1024)
    parser.add_argument("--body-seconds", type=float, default=60.0)
    parser.add_argument("--answer-seconds", type=float, default=120.0)
    parser.add_argument("--idle-seconds", type=float, default=300.0)
    parser.add_argument("--max-connections", type=int)
    parser.add_argument("--tls", nargs=2, type=Path, metavar=("CERTIFICATE", "KEY"))
    parser.add_argument("--tls-client-ca", type=Path)
    parser.add_argument("--access-log", type=Path)
    parser.add_argument("--no-control", action="store_true")
    parser.add_argument("--http-port", type=int, default=0)
    parser.add_argument("--grpc-port", type=int, default=0)
    given = parser.parse_args()
    settings = FrontSettings(
        http_port=given.http_port,
        grpc_port=given.grpc_port,
        max_body=given.max_body,
        grace=given.grace,
        token=given.token,
        max_requests=given.max_requests,
        body_timeout=given.body_seconds,
        answer_timeout=given.answer_seconds,
        idle_timeout=given.idle_seconds,
        max_connections=given.max_connections,
        tls=None if given.tls is None else Tls(*given.tls, given.tls_client_ca),
        control=not given.no_control,
    )
    # Not to standard output, which nobody reads while it runs: a pipe that is full stops the server.
    log = None if given.access_log is None else AccessLog(given.access_log.open("a"))
    return asyncio.run(serve(FakeEngine(), settings, lambda line: print(line, flush=True), log))


if __name__ == "__main__":
    sys.exit(main())
