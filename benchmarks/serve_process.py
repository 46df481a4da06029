"""Servers in processes of their own, as `benchmarks.serve` needs them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from benchmarks import common
from benchmarks.serve_client import MODEL, cpu_seconds

_READY_SECONDS = 120.0
_END_SECONDS = 60.0
#: Between looks whether a server is ready: it uses the processors meanwhile, too.
_LOOK_EVERY = 0.002


@dataclass
class Server:
    """One that runs. `began`, `open`, `ready`: moments of `time.perf_counter`."""

    process: subprocess.Popen[str]
    ports: dict[str, int]
    began: float
    open: float
    ready: float = field(default=0.0)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self.process.pid

    def get(self, path: str) -> tuple[int, Any]:
        """Status and content. OSError."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["rest"], timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def tuning(self) -> dict[str, Any]:
        """The tuner's counters; empty on the stock provider."""
        status, document = self.get(f"/v2/models/{MODEL}/tuning")
        if status != 200:
            raise SystemExit(f"/tuning: {status}: {document}")
        return dict(document.get("stats", {}))

    def wait_until_ready(self) -> None:
        """Raises SystemExit where it is not in time."""
        while self.get("/v2/health/ready")[0] != 200:
            if time.perf_counter() > self.began + _READY_SECONDS or self.process.poll() is not None:
                raise SystemExit("a server was not ready in time")
            time.sleep(_LOOK_EVERY)
        self.ready = time.perf_counter()

    def wait_until_idle(self, limit: float = 5.0, window: float = 0.05) -> None:
        """Until it used no processor for a moment, or `limit` seconds: it may measure in the background."""
        end = time.perf_counter() + limit
        while time.perf_counter() < end:
            used = cpu_seconds(self.pid)
            time.sleep(window)
            if cpu_seconds(self.pid) == used:
                return

    def end(self) -> None:
        """As a user ends it; what it learned is saved. SystemExit where it does not end well."""
        self.process.terminate()
        if (code := self.process.wait(timeout=_END_SECONDS)) != 0:
            raise SystemExit(f"a server ended with exit code {code}")


@contextlib.contextmanager
def server(model: Path, state: Path, *arguments: str, log: TextIO | None = None) -> Iterator[Server]:
    """On free ports; killed at the end where it runs still. It sees no TUNABLEOP_* variable."""
    command = [sys.executable, "-m", "onnxruntime_ep_tunableop", "serve", f"{MODEL}={model}"]
    command += ["--http-port", "0", "--grpc-port", "0", "--access-log", "off", "--state", str(state)]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TUNABLEOP_")}
    os.sched_setaffinity(0, common.PROCESSORS)
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=log, text=True, env=kept, cwd=common.ROOT
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"a server did not start: exit code {process.wait(timeout=_END_SECONDS)}")
        ports = json.loads(line)
        yield Server(
            process,
            {"rest": ports["http_port"], "grpc": ports["grpc_port"]},
            began,
            time.perf_counter(),
        )
    finally:
        process.kill()
        process.wait(timeout=_END_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


class Client:
    """`benchmarks.serve_client` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Use `client`."""
        self._process = process

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """One order and its answer. SystemExit where the client has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the client ended")
        return dict(json.loads(line))


@contextlib.contextmanager
def client(feeds: Path) -> Iterator[Client]:
    """Ended at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.serve_client", str(feeds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=common.ROOT,
    )
    try:
        yield Client(process)
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.kill()
        process.wait(timeout=_END_SECONDS)


def learn(
    model: Path, state: Path, shapes: Sequence[dict[str, list[int]]], scratch: Path, arguments: Sequence[str]
) -> None:
    """Fills a state folder with what a server that is warmed with `shapes` measures."""
    file = scratch / "shapes.json"
    file.write_text(json.dumps(list(shapes)), encoding="utf-8")
    with server(model, state, "--warm", str(file), *arguments) as one:
        one.wait_until_ready()
        one.end()
