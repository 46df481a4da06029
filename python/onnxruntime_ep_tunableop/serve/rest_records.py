"""Makes a record of each HTTP request: an ASGI application around another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from .records import Record

#: Keys of the scope, which the endpoints write.
OPERATION = "tunableop.operation"
OUTCOME = "tunableop.outcome"
MESSAGE = "tunableop.message"
REQUEST_ID = "tunableop.id"
#: True when the whole body was read.
BODY_READ = "tunableop.body"
#: An ExitStack: what is held until the answer is taken.
HELD = "tunableop.held"

#: Bytes of an answer that are written at a time. The next part waits until the client has taken most of this.
_PART = 256 * 1024


class Recorded:
    """`keep` gets the record when the request has ended, whichever way."""

    def __init__(self, application: Any, keep: Callable[[Record], None]) -> None:
        self._application = application
        self._keep = keep

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Of ASGI."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        client = scope.get("client")
        record = Record("rest", "none", peer=f"{client[0]}:{client[1]}" if client else "")
        sent = 0

        async def counting_receive() -> Any:
            message = await receive()
            record.bytes_in += len(message.get("body", b""))
            if not message.get("more_body", False):
                scope[BODY_READ] = True
            return message

        async def counting_send(message: Any) -> None:
            nonlocal sent
            body = message.get("body", b"")
            sent += len(body)
            if len(body) <= _PART:
                await send(message)
                return
            rest = memoryview(body)
            while rest:
                await send({**message, "body": rest[:_PART], "more_body": True})
                rest = rest[_PART:]
            # Comes back when nearly all is taken.
            await send({**message, "body": b""})

        outcome = "cancelled"
        try:
            with contextlib.ExitStack() as scope[HELD]:
                await self._application(scope, counting_receive, counting_send)
            outcome = scope.get(OUTCOME, "not found")
        except asyncio.CancelledError:
            raise
        finally:
            parameters = scope.get("path_params", {})
            record.operation = scope.get(OPERATION, "none")
            record.model = parameters.get("name", "")
            record.version = parameters.get("version", "")
            record.id = scope.get(REQUEST_ID, "")
            record.done(outcome, sent, scope.get(MESSAGE, ""))
            self._keep(record)
