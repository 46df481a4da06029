"""uvicorn's protocol, with bounds on what comes before a body, and an end that loses no request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Bytes of a request's line and headers. nginx takes 32 KiB.
MAX_HEAD = 64 * 1024

#: Seconds that a connection without a request is kept at the end: one may be on its way.
_ON_ITS_WAY = 0.5


def bounded(seconds: float) -> type[HttpToolsProtocol]:
    """A protocol that closes connections whose request's head is too large, or not there within `seconds`.

    uvicorn itself waits for ever, and collects for ever.
    """

    class Bounded(HttpToolsProtocol):
        _head = 0  # bytes of the head that comes now
        _in_head = True
        _last = False  # the connection ends with its next answer
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
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
            super().on_headers_complete()
            if self._last and self.cycle is not None:
                self.cycle.keep_alive = False

        def send_400_response(self, msg: str) -> None:
            body = json.dumps({"error": msg}).encode()
            head = (
                "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

        def shutdown(self) -> None:
            self._last = True
            if self._idle():
                self.loop.call_later(_ON_ITS_WAY, self._close_if_idle)
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
