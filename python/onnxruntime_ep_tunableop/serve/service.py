"""A version of a model in service: requests go in, and answers come out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import _control
from ..errors import TunableOpError
from .batcher import Batcher, Limits
from .counters import OK, Counters
from .metadata import Checked
from .model import Model
from .protocol import InferRequest, InferResponse, Kind, ProtocolError, Tensor
from .rows import mixing
from .runner import Runner
from .saving import Exchange
from .settings import ModelSettings
from .warm import warm_up
from .workers import Workers


class Service:
    """Model, queue and threads. For the event loop only."""

    def __init__(self, model: Model, counters: Counters) -> None:
        settings = model.settings
        self.model = model
        self.counters = counters
        self._workers = Workers(settings.instances, f"run-{model.name}")
        loop = asyncio.get_running_loop()

        def split() -> None:
            counters.split += 1

        self._runner = Runner(model, self._workers, lambda: _soon(loop, split))
        self._batcher: Batcher[Checked, Sequence[Tensor]] = Batcher(
            Limits(
                settings.instances,
                settings.max_batch if self._runner.together else 1,
                settings.max_delay_ms / 1e3,
                settings.queue_size,
            ),
            self._runner.start,
            counters,
        )
        self.exchange = Exchange(model)
        self._end: asyncio.Future[None] | None = None

    @classmethod
    async def load(
        cls,
        settings: ModelSettings,
        version: str,
        path: Path,
        cache: Path,
        *,
        warm_from_cache: bool,
        counters: Counters,
        threads: Workers,
    ) -> Service:
        """Loads in one of `threads`, and comes back when it is warm. ProtocolError: FAILED."""

        def make() -> Model:
            model = Model(settings, version, path, cache)
            try:
                if settings.check_rows and (how := mixing(model)):
                    model.forbid_batches(how)
                warm_up(model, from_cache=warm_from_cache)
            except ProtocolError:
                model.close()
                raise
            return model

        return cls(await threads.submit(make), counters)

    async def infer(self, request: InferRequest) -> InferResponse:
        """The answer. ProtocolError."""
        began = time.monotonic()
        model, counters = self.model, self.counters
        try:
            checked = model.signature.check(request)
            rows = checked.rows if self._runner.together else 0
            tensors = await self._batcher.submit(checked, rows, checked.key, request.deadline)
        except ProtocolError as error:
            counters.answered(error.kind.value)
            raise
        except asyncio.CancelledError:
            counters.answered("cancelled")
            raise
        except Exception as error:
            counters.answered(Kind.FAILED.value)
            raise ProtocolError(Kind.FAILED, f"model '{model.name}' failed: {error}") from error
        counters.answered(OK)
        counters.latency.add(time.monotonic() - began)
        return InferResponse(model.name, model.version, request.id, tensors)

    def close(self, error: Callable[[], ProtocolError]) -> None:
        """Takes no more requests."""
        self._batcher.close(error)

    async def drain(self) -> None:
        """Until what was accepted is answered."""
        await self._batcher.drain()

    def give_up(self, error: Callable[[], ProtocolError]) -> None:
        """Answers with an error what is not answered yet, and stops the runs."""
        self._batcher.give_up(error)

    async def end(self, threads: Workers) -> None:
        """Saves and ends the session in one of `threads`; nothing may be waiting or running any more."""
        if self._end is None:
            self._workers.close()
            self._end = threads.submit(self.model.close)
        await asyncio.shield(self._end)

    async def save(self, threads: Workers) -> None:
        """Only saves, in one of `threads`."""
        await threads.submit(self.exchange)

    def tuning(self) -> Mapping[str, Any]:
        """What the session learned, and what it counts."""
        document: dict[str, Any] = {"model": self.model.name, "version": self.model.version}
        if self.model.tunes:
            document["results"] = _control.get_tuning_results(self.model.session)
            document["stats"] = asdict(_control.stats(self.model.session))
        document["serving"] = self.counters.snapshot()
        return document

    def stats(self) -> _control.Stats | None:
        """The session's counters; None where it does not tune."""
        try:
            return _control.stats(self.model.session) if self.model.tunes else None
        except TunableOpError:
            return None


def _soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(function)
