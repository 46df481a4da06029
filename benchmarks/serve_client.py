"""The client of `benchmarks.serve`, in a process of its own so that what it costs can be told apart.

    python -m benchmarks.serve_client FEEDS.npz

FEEDS.npz has the inputs NUMBER/NAME of each request. Reads an order a line as JSON, and answers each with a
line: {"learn": PORTS} takes the answers of that server as right ones; {"compare": PORTS} gives the largest
difference from them, over both protocols; {"load": ...} (see `Load`) asks for a while. Requests are made
before: while it loads, the client writes bytes that it has, and reads no more of an answer than it must.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc.aio
import numpy as np
from numpy.typing import NDArray
from onnxruntime_ep_tunableop.serve.wire import open_inference_pb2 as messages

MODEL, OUTPUT = "encoder", "sentence_embedding"
METHOD = "/inference.GRPCInferenceService/ModelInfer"
PROTOCOLS = ("rest", "grpc")
#: Every so many answers, one is kept and compared.
SAMPLE = 16
_SECONDS = 60.0  # beyond a block's own: an answer that is not there then is an error
_HEADER = "inference-header-content-length"

Feed = dict[str, NDArray[Any]]
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Load:
    """`concurrency` callers, each with a connection (REST) or a call (gRPC) of its own, for so many seconds.

    `requests`: numbers of the feeds to send. The first `warm_up` seconds are not counted, nor
    what comes before every caller had an answer. `pid`: the server's.
    """

    protocol: str
    port: int
    pid: int
    concurrency: int
    seconds: float
    warm_up: float
    requests: Sequence[int]
    seed: int = 0


class Caller(Protocol):
    """Asks, one request at a time."""

    async def ask(self, request: bytes) -> bytes:
        """The raw answer. Raises OSError or RuntimeError where there is none, or it is an error."""

    async def close(self) -> None:
        """Ends its connection."""


class _Connection(asyncio.Protocol):
    """Just enough of HTTP/1.1 for answers with a content-length."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        size = int(_header(self._data[:end], "content-length"))
        if len(self._data) >= end + 4 + size and self._answer is not None and not self._answer.done():
            self._answer.set_result(bytes(self._data))
            self._data.clear()

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"the connection ended: {error}"))

    async def ask(self, request: bytes) -> bytes:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        answer = await self._answer
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(answer[:300].decode("latin-1"))
        return answer

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Call:
    """Calls on a channel that others use, too, as clients of gRPC do."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._infer = channel.unary_unary(METHOD)

    async def ask(self, request: bytes) -> bytes:
        try:
            return bytes(await self._infer(request))
        except grpc.aio.AioRpcError as error:
            raise RuntimeError(f"{error.code()}: {error.details()}") from None

    async def close(self) -> None:
        await self._channel.close()


def _header(head: bytes | bytearray, name: str) -> str:
    for line in bytes(head).split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name.encode():
            return value.strip().decode()
    raise RuntimeError(f"no header {name}: {bytes(head[:200])!r}")


async def callers(protocol: str, port: int, count: int) -> list[Caller]:
    """So many, connected."""
    if protocol == "grpc":
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        await channel.channel_ready()
        return [_Call(channel) for _ in range(count)]
    made: list[Caller] = []
    for _ in range(count):
        _, connection = await asyncio.get_running_loop().create_connection(_Connection, "127.0.0.1", port)
        made.append(connection)
    return made


def rest_request(feed: Feed) -> bytes:
    """Binary tensors, the sentence's embedding asked for in binary, too."""
    inputs = [
        {
            "name": name,
            "datatype": "INT64",
            "shape": list(array.shape),
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, array in feed.items()
    ]
    document = {"inputs": inputs, "outputs": [{"name": OUTPUT, "parameters": {"binary_data": True}}]}
    header = json.dumps(document).encode()
    body = header + b"".join(array.tobytes() for array in feed.values())
    head = (
        f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/octet-stream\r\ncontent-length: {len(body)}\r\n{_HEADER}: {len(header)}"
        "\r\n\r\n"
    )
    return head.encode() + body


def grpc_request(feed: Feed) -> bytes:
    """Raw tensors."""
    message = messages.ModelInferRequest(model_name=MODEL)
    for name, array in feed.items():
        message.inputs.add(name=name, datatype="INT64", shape=list(array.shape))
        message.raw_input_contents.append(array.tobytes())
    message.outputs.add(name=OUTPUT)
    return bytes(message.SerializeToString())


def embedding(protocol: str, answer: bytes) -> Array:
    """Of a raw answer."""
    if protocol == "grpc":
        (raw,) = messages.ModelInferResponse.FromString(answer).raw_output_contents
        return np.frombuffer(raw, np.float32)
    head, _, body = answer.partition(b"\r\n\r\n")
    return np.frombuffer(body[int(_header(head, _HEADER)) :], np.float32)


MAKE: dict[str, Callable[[Feed], bytes]] = {"rest": rest_request, "grpc": grpc_request}


class _Block:
    """Counts the answers after the warm-up, which ends when every caller has had one.

    Answers of a batch come at once. So the counted time begins and ends with an answer: it would else miss or
    cut a batch, of which there are few with many callers.
    """

    def __init__(self, order: Load) -> None:
        self._order = order
        self._made = time.perf_counter()
        self._warm: set[int] = set()
        self._start = self._last = math.inf
        self._cpu = self._server_cpu = 0.0
        self._latencies: list[float] = []
        self.kept: list[tuple[int, bytes]] = []
        self.errors: list[str] = []
        self.over = False

    def answered(self, caller: object, number: int, began: float, answer: bytes) -> None:
        """One more, just now."""
        now = time.perf_counter()
        if self.over:
            return
        if self._start > now:
            self._warm.add(id(caller))
            if len(self._warm) == self._order.concurrency and now >= self._made + self._order.warm_up:
                self._cpu, self._server_cpu = time.process_time(), cpu_seconds(self._order.pid)
                self._start = now
        elif now >= self._start + self._order.seconds and len(self._latencies) >= self._order.concurrency:
            self.over = True
            share = (self._last - self._start) / (now - self._start)
            self._cpu = (time.process_time() - self._cpu) * share
            self._server_cpu = (cpu_seconds(self._order.pid) - self._server_cpu) * share
        else:
            self._last = now
            self._latencies.append(now - began)
            if len(self._latencies) % SAMPLE == 0:
                self.kept.append((number, answer))

    def report(self) -> dict[str, Any]:
        """Processor seconds are those of the counted time."""
        if not self.over:
            self.errors.append("the block did not come to its end")
        return {
            "latencies": self._latencies,
            "wall_seconds": self._last - self._start if self.over else 0.0,
            "client_cpu_seconds": self._cpu,
            "server_cpu_seconds": self._server_cpu,
            "errors": self.errors,
        }


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """The requests, and what is right."""

    def __init__(self, feeds: list[Feed]) -> None:
        self._requests = {name: [make(feed) for feed in feeds] for name, make in MAKE.items()}
        self._right: list[Array] = []

    async def learn(self, ports: dict[str, int]) -> dict[str, Any]:
        """Takes a server's answers as right ones. Both protocols have to give the same."""
        self._right = await self._all("rest", ports["rest"])
        return await self.compare({"grpc": ports["grpc"]})

    async def compare(self, ports: dict[str, int]) -> dict[str, Any]:
        """The largest difference, as a share of the largest number, over all requests."""
        worst = 0.0
        for protocol, port in ports.items():
            for number, found in enumerate(await self._all(protocol, port)):
                worst = max(worst, self._far(number, found))
        return {"difference": worst}

    async def load(self, order: Load) -> dict[str, Any]:
        """Latencies and what else there is to know of a block."""
        requests = self._requests[order.protocol]
        turns = itertools.cycle(np.random.default_rng(order.seed).permutation(order.requests).tolist())
        block = _Block(order)
        made = await callers(order.protocol, order.port, order.concurrency)

        async def ask(caller: Caller) -> None:
            while not block.over:
                number = next(turns)
                began = time.perf_counter()
                try:
                    answer = await caller.ask(requests[number])
                except (OSError, RuntimeError) as error:
                    block.errors.append(str(error) or type(error).__name__)
                    return
                block.answered(caller, number, began, answer)

        try:
            await asyncio.wait_for(asyncio.gather(*map(ask, made)), order.warm_up + order.seconds + _SECONDS)
        except asyncio.TimeoutError:
            block.errors.append(f"answers did not come within {_SECONDS:.0f} s")
        finally:
            for caller in made:
                await caller.close()
        return block.report() | {
            "compared": len(block.kept),
            "difference": max(
                (self._far(number, embedding(order.protocol, answer)) for number, answer in block.kept),
                default=0.0,
            ),
        }

    async def _all(self, protocol: str, port: int) -> list[Array]:
        (caller,) = await callers(protocol, port, 1)
        try:
            return [embedding(protocol, await caller.ask(one)) for one in self._requests[protocol]]
        finally:
            await caller.close()

    def _far(self, number: int, found: Array) -> float:
        right = self._right[number]
        if found.shape != right.shape:
            return math.inf
        far = float(np.abs(found - right).max()) / float(np.abs(right).max())
        return math.inf if math.isnan(far) else far


def main() -> None:
    """Until the orders end."""
    with np.load(sys.argv[1]) as file:
        feeds: dict[str, Feed] = {}
        for key in file.files:
            number, _, name = key.partition("/")
            feeds.setdefault(number, {})[name] = file[key]
    client = Client(list(feeds.values()))

    async def obey(order: dict[str, Any]) -> dict[str, Any]:
        if "load" in order:
            return await client.load(Load(**order["load"]))
        work: Callable[[dict[str, int]], Awaitable[dict[str, Any]]]
        work = client.learn if "learn" in order else client.compare
        return await work(next(iter(order.values())))

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await obey(json.loads(line))), flush=True)

    asyncio.run(serve())


if __name__ == "__main__":
    main()
