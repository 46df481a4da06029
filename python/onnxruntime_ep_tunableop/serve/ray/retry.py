"""Which failures of a request are the replica's and not the request's: another replica may answer it."""

from __future__ import annotations

import asyncio

from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    TaskCancelledError,
    WorkerCrashedError,
)

from ..protocol import InferResponse, Kind, ProtocolError
from .traffic import Refusal

#: Replicas that a request may be at when they die, or that were ending. One that kills what runs it must not
#: kill all of them.
ATTEMPTS = 3
#: Replicas that may say that they have not got a model, which others have.
ASKED = 10
#: Seconds before another replica is asked for a model that this one has not.
PAUSE = 0.1

#: An inference changes nothing, so that one which may have run is run again.
LOST: tuple[type[Exception], ...] = (
    RayActorError,
    WorkerCrashedError,
    NodeDiedError,
    ObjectLostError,  # the answer, on a node that died
    OutOfMemoryError,
    TaskCancelledError,  # nobody here did: the replica was ended
)


class Attempts:
    """Of one request."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._died = 0
        self._refused = 0

    def died(self, error: Exception) -> None:
        """A replica did. ProtocolError: it has been enough."""
        self._died += 1
        if self._died >= ATTEMPTS:
            raise ProtocolError(
                Kind.FAILED, f"model '{self._model}': {ATTEMPTS} replicas died at this request: {error}"
            ) from error

    async def refused(self, refusal: Refusal) -> None:
        """A replica has not got the model, or ends. ProtocolError: other errors, and the last one."""
        self._refused += 1
        if refusal.kind is not Kind.UNAVAILABLE or self._refused >= ASKED:
            raise refusal.error()
        await asyncio.sleep(PAUSE)


def answer_of(result: InferResponse | Refusal) -> InferResponse | None:
    """None for a refusal."""
    return None if isinstance(result, Refusal) else result
