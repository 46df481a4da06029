"""Makes a record of each HTTP request: an ASGI application around another."""

from __future__ import annotations

import asyncio
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
            sent += len(message.get("body", b""))
            await send(message)

        outcome = "cancelled"
        try:
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
