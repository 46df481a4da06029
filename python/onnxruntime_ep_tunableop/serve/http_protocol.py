"""uvicorn's protocol, with bounds on what comes before a body, and an end that loses no request."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .front import ON_ITS_WAY

#: Bytes of a request's line and headers. nginx takes 32 KiB.
MAX_HEAD = 64 * 1024

#: An offer to go on in another protocol, which Java's client makes with each request. The parser would take
#: it, and no body.
_UPGRADE = re.compile(rb"(?i)(?<=\n)upgrade(?=[ \t]*:)")

#: What may come before one, or be its beginning, at the end of a part of a head that goes on.
_UPGRADE_BEGINS = re.compile(rb"(?i)(?<!\n)\r(\n(u(p(g(r(a(de?)?)?)?)?)?)?)?\Z")

#: Requests that a client may send without waiting, until no more are read.
_PIPELINED = 64


def bounded(seconds: float, unread: float, most: int) -> type[HttpToolsProtocol]:
    """A protocol that closes connections whose request's head is too large, or not there within `seconds`.

    And those whose client takes no more of an answer for the time `unread`. Of more than `most` connections,
    the one that is longest without a request makes room; where there is none, the new one hears 503.

    uvicorn itself waits for ever, and collects for ever.
    """
    # Connections, the one that is longest without a request first.
    idle: dict[Bounded, None] = {}

    class Bounded(HttpToolsProtocol):
        _head = 0  # bytes of the head that comes now
        _begun = b""  # of it, what waits for the next bytes
        _in_head = True
        _last = False  # the connection ends with its next answer
        _timer: asyncio.TimerHandle | None = None
        _running: Any = None  # the request that is answered now
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start()
            if len(self.connections) > most:
                if not idle:
                    self._refuse()
                    return
                longest = next(iter(idle))
                del idle[longest]
                self.connections.discard(longest)  # now: many may come before it is closed
                longest._close()
            idle[self] = None

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            self.resume_writing()
            idle.pop(self, None)
            self.pipeline.clear()
            if self._running is not None and not self._running.response_complete:
                # uvicorn tells the latest request only, and this is the one that runs.
                self._running.disconnected = True
                self._running.message_event.set()
            super().connection_lost(exc)

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self._running = cycle
            super()._start_asgi_task(cycle, app)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._unread is None:
                self._unread = self.loop.call_later(unread, self.transport.abort)

        def resume_writing(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None
            super().resume_writing()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._idle() and not self.transport.is_closing():
                idle[self] = None

        def data_received(self, data: bytes) -> None:
            if self._idle():
                data, self._begun = self._begun + data, b""
                end = data.find(b"\r\n\r\n")
                if end < 0 and (begun := _UPGRADE_BEGINS.search(data)) is not None:
                    data, self._begun = data[: begun.start()], data[begun.start() :]
                offer = _UPGRADE.search(data, 0, len(data) if end < 0 else end)
                if offer is not None:
                    data = data[: offer.start()] + b"x-offered" + data[offer.end() :]
            if self._in_head:
                # What came before was all head, or the head would be complete.
                if self._head > MAX_HEAD:
                    self.send_400_response(f"expected headers of at most {MAX_HEAD} bytes, found more")
                    return
                self._head += len(data)
            super().data_received(data)

        def on_message_begin(self) -> None:
            self._start()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._stop()
            idle.pop(self, None)
            super().on_headers_complete()
            if 0 < len(self.pipeline) < _PIPELINED:
                self.flow.resume_reading()  # who does not read does not see that the client is gone
            if self._last and self.cycle is not None:
                self.cycle.keep_alive = False

        def send_400_response(self, msg: str) -> None:
            self._hang_up("400 Bad Request", msg)

        def _refuse(self) -> None:
            found = f"this server takes {most} connections at a time, and has them"
            self._hang_up("503 Service Unavailable", found, "retry-after: 1\r\n")

        def _hang_up(self, status: str, message: str, more: str = "") -> None:
            body = json.dumps({"error": message}).encode()
            head = (
                f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

        def shutdown(self) -> None:
            self._last = True
            if self._idle():
                self.loop.call_later(ON_ITS_WAY, self._close_if_idle)
            else:
                super().shutdown()

        def _idle(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _close_if_idle(self) -> None:
            if self._idle():
                self._close()

        def _start(self) -> None:
            self._stop()
            self._in_head = True
            self._timer = self.loop.call_later(seconds, self._close)

        def _stop(self) -> None:
            self._in_head = False
            self._head = 0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _close(self) -> None:
            if not self.transport.is_closing():
                self.transport.close()

    return Bounded
