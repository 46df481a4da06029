"""One process: uvicorn and grpc.aio in one event loop, from the first signal to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from .front import Front, FrontSettings
from .interface import Serving
from .metrics import Metrics
from .rest import Rest

_LOG = logging.getLogger(__name__)

#: Of the grace time, what is kept for the engine to save and end in, at most.
_FOR_ENGINE = 5.0


class _Uvicorn(uvicorn.Server):
    """Leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(engine: Serving, settings: FrontSettings, say: Callable[[str], None]) -> int:
    """Until TERM or INT; the exit code: 0, or 1 where requests were cut off when the grace time had passed.

    `say` gets one line of JSON with the ports when they accept. `engine` is shut down at the end.
    """
    front = Front(engine, settings)
    metrics = Metrics(front)
    asked = asyncio.Event()
    _on_signals(asked)
    rest = _listen(settings) if settings.http_port is not None else None
    web = None if rest is None else _web(front, metrics, rest)
    serving: list[asyncio.Task[Any]] = []
    ports: dict[str, int] = {}
    if web is not None and rest is not None:
        serving.append(asyncio.ensure_future(web.serve(sockets=[rest])))
        ports["http_port"] = rest.getsockname()[1]
    say(json.dumps({"host": settings.host, **ports, "pid": os.getpid()}))
    ended = asyncio.ensure_future(asked.wait())
    await asyncio.wait([ended, *serving], return_when=asyncio.FIRST_COMPLETED)
    front.draining = True
    end = time.monotonic() + settings.grace
    if web is not None:
        web.should_exit = True
    if serving:
        await asyncio.wait(serving, timeout=settings.grace)
    cut_off = front.in_flight
    await engine.shut_down(max(end - time.monotonic(), 0.0))
    return 1 if cut_off else 0


def _listen(settings: FrontSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((settings.host, settings.http_port))
    listening.listen(2048)
    listening.setblocking(False)
    return listening


def _web(front: Front, metrics: Metrics, rest: socket.socket) -> _Uvicorn:
    config = uvicorn.Config(
        Rest(front, metrics.text).application,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=max(1, int(front.settings.grace - 1)),
    )
    return _Uvicorn(config)


def _on_signals(asked: asyncio.Event) -> None:
    def received(number: int) -> None:
        if asked.is_set():
            os._exit(128 + number)  # the second: at once
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
