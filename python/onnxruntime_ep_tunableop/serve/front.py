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

#: Seconds that a connection, or a stream, without a request is kept at the end: one may be on its way.
ON_ITS_WAY = 0.5

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
    answer_timeout: float = 120.0  #: for a client to take the next part of its answer
    idle_timeout: float = 300.0  #: for the next request on a connection, or on a stream of gRPC
    max_connections: int | None = None  #: of REST, and of gRPC; None: what the limit of open files allows
    grace: float = 30.0  #: for what was accepted, after the first TERM or INT
    control: bool = True  #: clients may load and unload models
    token: str | None = None  #: what clients must show; None: nothing
    tls: Tls | None = None


@dataclass
class Front:
    """Of one process; used from the event loop only."""

    engine: Serving
    settings: FrontSettings
    in_flight: int = 0  #: inference requests that both front ends are at
    observers: list[Callable[[Record], None]] = field(default_factory=list)
    places: int = 0  #: taken, of `max_requests`
    _drain_until: float | None = None
    _listening: set[Listening] = field(default_factory=set)
    _end: asyncio.Future[None] | None = None

    @property
    def draining(self) -> bool:
        """Going down: not ready, whatever the engine says."""
        return self._drain_until is not None

    def drain(self) -> None:
        """Goes down: what clients have on their way now may still come, and then nobody is listened to."""
        if self._drain_until is None:
            self._drain_until = time.monotonic() + ON_ITS_WAY
            for one in tuple(self._listening):
                one.shorten(ON_ITS_WAY)

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
        """Held by an inference request from before its body is read until its answer is taken: bodies and
        answers are what takes memory.
        """
        limit = self.settings.max_requests
        if self.places >= limit:
            raise ProtocolError(Kind.BUSY, f"this server takes {limit} requests at a time, and has them")
        self.places += 1
        try:
            yield
        finally:
            self.places -= 1

    def listening(self, seconds: float, late: str) -> Listening:
        """For a task that waits for its client: DEADLINE with the words `late` after `seconds`, UNAVAILABLE
        soon after the server begins to go down.
        """
        left = None if self._drain_until is None else self._drain_until - time.monotonic()
        return Listening(seconds, ProtocolError(Kind.DEADLINE, late), self._listening, left)

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


class Listening:
    """A context in which the current task waits for its client, and is not kept waiting. Made by `Front`."""

    def __init__(
        self, seconds: float, late: ProtocolError, others: set[Listening], drain: float | None
    ) -> None:
        """`drain`: seconds that are left when the server is going down already."""
        self._seconds = seconds
        self._late = late
        self._others = others
        self._drain = drain
        self._error: ProtocolError | None = None
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        """The time begins. UNAVAILABLE when the server is down already."""
        if self._drain is not None and self._drain <= 0.0:
            raise _going_down()
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer = loop.call_later(self._seconds, self._stop, self._late)
        self._others.add(self)
        if self._drain is not None:
            self.shorten(self._drain)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """What stopped the task, as an error."""
        assert self._timer is not None
        self._timer.cancel()
        self._others.discard(self)
        error, self._error = self._error, None
        if error is not None and kind is not None and issubclass(kind, asyncio.CancelledError):
            if uncancel := getattr(self._task, "uncancel", None):  # Python 3.11
                uncancel()
            raise error from None

    def shorten(self, seconds: float) -> None:
        """The server goes down."""
        assert self._timer is not None
        loop = asyncio.get_running_loop()
        if self._timer.when() > loop.time() + seconds:
            self._timer.cancel()
            self._timer = loop.call_later(seconds, self._stop, _going_down())

    def _stop(self, error: ProtocolError) -> None:
        assert self._task is not None
        self._error = error
        self._task.cancel()


def _going_down() -> ProtocolError:
    return ProtocolError(Kind.UNAVAILABLE, "the server is going down")


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
