"""What both front ends share: their settings, and the way from a request to its answer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .interface import Serving
from .protocol import InferRequest, InferResponse, Kind, ProtocolError
from .records import Record
from .security import Tls

_T = TypeVar("_T")

MEBIBYTE = 1 << 20

#: Of the server's metadata; extensions have the names that Triton gives them.
SERVER_NAME = "onnxruntime-ep-tunableop"
EXTENSIONS = ("binary_tensor_data", "model_repository", "model_configuration", "statistics", "parameters")

#: Of messages to clients: what they sent may be in them.
MAX_MESSAGE = 2000

#: Bodies above this are read and written in threads: on the event loop they would keep others waiting.
INLINE_BYTES = 256 * 1024


@dataclass(frozen=True)
class FrontSettings:
    """Times in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    http_port: int | None = 8000  #: 0: one that is free; None: no REST
    grpc_port: int | None = 8001  #: likewise
    max_body: int = 64 * MEBIBYTE  #: of a request, after it is unpacked
    max_requests: int = 1024  #: inference requests at a time, those whose body still comes among them
    body_timeout: float = 60.0  #: for a request's head, and for its body, to arrive
    grace: float = 30.0  #: for what was accepted, after the first TERM or INT
    control: bool = True  #: clients may load and unload models
    token: str | None = None  #: what clients must show; None: nothing
    tls: Tls | None = None


@dataclass
class Front:
    """Of one process; used from the event loop only."""

    engine: Serving
    settings: FrontSettings
    draining: bool = False  #: going down: not ready, whatever the engine says
    in_flight: int = 0  #: inference requests that both front ends are at
    observers: list[Callable[[Record], None]] = field(default_factory=list)
    _places: int = 0
    _end: asyncio.Future[None] | None = None

    def record(self, record: Record) -> None:
        """A request has ended."""
        for observe in self.observers:
            observe(record)

    def ready(self) -> bool:
        """Whether new requests are welcome."""
        return not self.draining and self.engine.ready()

    def check_control(self) -> None:
        """Loading and unloading may be forbidden."""
        if not self.settings.control:
            raise ProtocolError(
                Kind.INVALID, "loading and unloading of models is switched off on this server"
            )

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Held by an inference request from before its body is read: bodies are what takes memory."""
        limit = self.settings.max_requests
        if self._places >= limit:
            raise ProtocolError(Kind.BUSY, f"this server takes {limit} requests at a time, and has them")
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    async def infer(self, request: InferRequest, gone: Awaitable[None] | None = None) -> InferResponse:
        """The engine's answer, unless the deadline passes, or `gone` says that nobody waits any more."""
        self.in_flight += 1
        try:
            left = None if request.deadline is None else max(request.deadline - time.monotonic(), 0.0)
            late = "the deadline passed before the model's answer was there"
            return await self.first(self.engine.infer(request), late, left, gone)
        finally:
            self.in_flight -= 1

    async def first(
        self, work: Awaitable[_T], late: str, seconds: float | None, gone: Awaitable[None] | None = None
    ) -> _T:
        """What `work` gives. It is cancelled after `seconds`, which is DEADLINE with the words `late`; when
        `gone` has come; when the server gives up, which is UNAVAILABLE.
        """
        if self._end is None:
            self._end = asyncio.get_running_loop().create_future()
        doing = asyncio.ensure_future(work)
        leaving = None if gone is None else asyncio.ensure_future(gone)
        waited: set[asyncio.Future[Any]] = {doing, self._end}
        if leaving is not None:
            waited.add(leaving)
        try:
            await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            if leaving is not None and leaving.done():
                raise ClientGoneError
            if self._end.done():
                raise ProtocolError(Kind.UNAVAILABLE, "the server is going down, and its grace time is over")
            raise ProtocolError(Kind.DEADLINE, late)
        finally:
            await _ended(doing)
            if leaving is not None:
                await _ended(leaving)

    def give_up(self) -> None:
        """The grace time is over: whoever still waits gets an error."""
        if self._end is not None and not self._end.done():
            self._end.set_result(None)


class ClientGoneError(Exception):
    """Nobody waits for the answer."""


async def _ended(task: asyncio.Future[Any]) -> None:
    if task.done():
        return
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


async def in_thread_if_large(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function that takes longer the more bytes there are."""
    if size <= INLINE_BYTES:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def message_of(error: BaseException) -> str:
    """For a client; not longer than it helps."""
    text = str(error) or type(error).__name__
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "..."
