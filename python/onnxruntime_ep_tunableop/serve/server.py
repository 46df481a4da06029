"""One process: uvicorn and grpc.aio in one event loop, from the first signal to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from .access_log import AccessLog
from .files import connection_limit
from .front import Front, FrontSettings
from .grpc_service import make_server
from .http_protocol import bounded
from .interface import Serving
from .metrics import Metrics
from .rest import Rest

#: Of the grace time, what is kept for the engine to save and end in, at most.
_FOR_ENGINE = 5.0

#: Shares of the grace time: for the engine, and, twice, for the errors of those that have waited in vain.
_ENGINE_SHARE = 0.25
_ERRORS_SHARE = 0.05


#: Seconds, and how often: the system's own are hours.
_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}


class _Uvicorn(uvicorn.Server):
    """Leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    engine: Serving, settings: FrontSettings, say: Callable[[str], None], access_log: AccessLog | None = None
) -> int:
    """Until TERM or INT; the exit code: 0, or 1 where requests were cut off when the grace time had passed.

    `say` gets one line of JSON with the ports when they accept. `engine` is shut down at the end, whatever
    happens. OSError or RuntimeError where a port is taken or a certificate does not fit.
    """
    front = Front(engine, settings)
    metrics = Metrics(front)
    front.observers.append(metrics.observe)
    if access_log is not None:
        front.observers.append(access_log.write)
    end = time.monotonic() + settings.grace
    try:
        asked = asyncio.Event()
        _on_signals(asked)
        ends = _FrontEnds(front, metrics)
        ports = await ends.start()
        say(json.dumps({"host": settings.host, **ports, "pid": os.getpid()}))
        await ends.until(asked)
        end = time.monotonic() + settings.grace
        front.drain()
        await ends.stop(settings.grace - min(_FOR_ENGINE, _ENGINE_SHARE * settings.grace))
        cut_off = ends.cut_off
    finally:
        front.drain()
        await engine.shut_down(max(end - time.monotonic(), 0.0))
    return 1 if cut_off else 0


class _FrontEnds:
    """REST and gRPC, as far as they are asked for."""

    def __init__(self, front: Front, metrics: Metrics) -> None:
        self._front = front
        self._metrics = metrics
        self._web: _Uvicorn | None = None
        self._web_task: asyncio.Task[None] | None = None
        self._grpc: Any = None
        self.cut_off = False  #: accepted requests went without an answer

    async def start(self) -> dict[str, int]:
        """The ports, which accept now."""
        settings = self._front.settings
        ports: dict[str, int] = {}
        # First what may fail: a gRPC server that has begun would have to be ended.
        listening = None if settings.http_port is None else _listen(settings)
        if settings.grpc_port is not None:
            try:
                self._grpc, ports["grpc_port"] = make_server(self._front)
            except BaseException:
                if listening is not None:
                    listening.close()
                raise
            await self._grpc.start()
        if listening is not None:
            ports["http_port"] = listening.getsockname()[1]
            self._web = _web(self._front, self._metrics)
            self._web_task = asyncio.ensure_future(self._web.serve(sockets=[listening]))
        return ports

    async def until(self, asked: asyncio.Event) -> None:
        """Until it is asked for, or REST has ended by itself, which is an error."""
        waiting = asyncio.ensure_future(asked.wait())
        tasks: set[asyncio.Future[Any]] = {waiting}
        if self._web_task is not None:
            tasks.add(self._web_task)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._web_task is not None and self._web_task.done():
            self._web_task.result()
            raise RuntimeError("the HTTP server ended by itself")

    async def stop(self, seconds: float) -> None:
        """Accepts no more, and answers what it accepted within `seconds`."""
        errors = _ERRORS_SHARE * self._front.settings.grace
        seconds -= 2 * errors
        stopping: set[asyncio.Future[Any]] = set()
        if self._grpc is not None:
            stopping.add(asyncio.ensure_future(self._grpc.stop(seconds + errors)))
        if self._web is not None and self._web_task is not None:
            self._web.should_exit = True
            stopping.add(self._web_task)
        if not stopping:
            return
        _, late = await asyncio.wait(stopping, timeout=seconds)
        self.cut_off = self._front.in_flight > 0
        if not late:
            return
        self._front.give_up()
        _, late = await asyncio.wait(late, timeout=errors)
        if self._web is not None:
            self._web.force_exit = True
        if late:
            await asyncio.wait(late, timeout=errors)


def _listen(settings: FrontSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Connections inherit the protocol, and by it asyncio switches TCP_NODELAY on for them. Without, the body
    # of an answer, which uvicorn writes after its head, waits 40 ms until the client confirms the head.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit them: one whose other end is gone, or does not read, is not kept for ever.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        unread = min(int(settings.answer_timeout * 1e3), 2**31 - 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread)
    try:
        listening.bind((settings.host, settings.http_port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        where = f"port {settings.http_port} of {settings.host}"
        raise OSError(error.errno, f"cannot listen on {where}: {error.strerror or error}") from error
    listening.setblocking(False)
    return listening


def _web(front: Front, metrics: Metrics) -> _Uvicorn:
    tls = front.settings.tls
    config = uvicorn.Config(
        Rest(front, metrics.text).application,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=front.settings.idle_timeout,  # type: ignore[arg-type]  # any number will do
        http=bounded(
            front.settings.body_timeout, front.settings.answer_timeout, connection_limit(front.settings)
        ),
        ws="none",
    )
    if tls is not None:
        config.load()
        config.ssl = tls.context()
    return _Uvicorn(config)


def _on_signals(asked: asyncio.Event) -> None:
    def received(number: int) -> None:
        if asked.is_set():
            os._exit(128 + number)  # the second: at once
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
