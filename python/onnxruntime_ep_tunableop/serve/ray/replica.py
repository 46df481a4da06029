"""One replica: an engine in an actor of Ray Serve. It asks the board what to do, and tells it what it did."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray import serve

from ...cache_tools.here import targets
from ..engine import Engine
from ..heap import keep_little
from ..protocol import InferResponse, ProtocolError
from ..repository import Repository
from ..settings import ServerSettings, SettingsError, shapes_of
from .board import LOAD, Order
from .picture import Report
from .sharing import Sharing
from .traffic import Asked, Refusal

logger = logging.getLogger("tunableop")

#: Seconds between reports to the board.
_BEAT = 0.5
#: Seconds for the board to answer; an actor that was lost is there again in a few.
_PATIENCE = 30.0


@dataclass(frozen=True)
class Told:
    """What every replica of an application is told."""

    settings: ServerSettings
    board: str  #: the actor's name
    namespace: str
    grace: float  #: seconds for what was accepted, at the end


class Replica:
    """A deployment's class: Ray Serve makes it, asks it, and ends it, all in one event loop."""

    def __init__(self, told: Told) -> None:
        """Only keeps what it is told: Ray Serve awaits `reconfigure` before it sends requests."""
        self._told = told
        self._name = serve.get_replica_context().replica_id.unique_id
        self._node = ray.get_runtime_context().get_node_id()
        self._sharing = Sharing(self._exchange)
        self._engine: Engine | None = None
        self._orders = 0
        self._learned: dict[str, int] = {}
        self._beating: asyncio.Task[None] | None = None
        logger.setLevel(logging.INFO)
        keep_little()

    async def reconfigure(self, _config: Any) -> None:
        """Makes the engine; comes back when its models are there, or have failed."""
        if self._engine is not None:
            return
        joined = await self._ask("join")
        self._orders = joined.order
        settings = self._told.settings
        found = await asyncio.to_thread(Repository(settings).scan)
        names = [name for name in found if name not in joined.unloaded]
        shapes = [found[name].settings for name in names]
        measures = settings.warm_from_cache or any(
            model is not None and (model.warm or shapes_of(settings.warm, model.name)) for model in shapes
        )
        kind = await asyncio.to_thread(_kind) if measures else ""
        async with self._turn(kind):
            for name in names:
                await self._sharing(name, settings.state / f"{name}.tune.json")
            self._engine = await Engine.start(replace(settings, load=names))
            await self._engine.loaded()
            await self._share(names)
        await self._report()
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def infer(self, asked: Asked) -> InferResponse | Refusal:
        """An answer, or an error as one."""
        assert self._engine is not None
        try:
            return await self._engine.infer(asked.here())
        except ProtocolError as error:
            return Refusal.of(error)

    async def __del__(self) -> None:
        """Ray Serve awaits it when the replica is to end and has answered what it was at."""
        engine = getattr(self, "_engine", None)
        if engine is None:
            return
        self._engine = None
        if self._beating is not None:
            self._beating.cancel()
        caches = engine.caches()
        await engine.shut_down(self._told.grace)
        with contextlib.suppress(Exception):  # without a board, files have it
            for name, path in caches.items():
                await self._sharing(name, path)
            await self._ask("leave", self._name)

    async def _ask(self, method: str, *arguments: Any) -> Any:
        board = ray.get_actor(self._told.board, self._told.namespace)
        return await asyncio.wait_for(getattr(board, method).remote(*arguments), _PATIENCE)

    async def _exchange(self, model: str, text: str | None) -> tuple[str, str | None]:
        answer: tuple[str, str | None] = await self._ask("exchange", model, text)
        return answer

    @contextlib.asynccontextmanager
    async def _turn(self, kind: str) -> Any:
        """Of each kind of device one replica measures at a time; others then find what it measured."""
        if not kind:
            yield
            return
        while not await self._ask("lease", kind, self._name):
            await asyncio.sleep(_BEAT)

        async def hold() -> None:
            while True:
                await asyncio.sleep(_BEAT)
                await self._ask("lease", kind, self._name)

        holding = asyncio.get_running_loop().create_task(hold())
        try:
            yield
        finally:
            holding.cancel()
            await self._ask("release", kind, self._name)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            try:
                await self._report()
            except Exception as error:
                logger.warning("the replicas' board does not answer: %s", error)

    async def _report(self) -> None:
        engine = self._engine
        if engine is None:
            return
        pulse = await self._ask("report", self._state(engine))
        for order in pulse.orders:
            await self._carry_out(engine, order)
        learned = {name: sum(counts) for name, counts in _learned(engine).items()}
        names = {name for name, number in learned.items() if self._learned.get(name, 0) != number}
        self._learned = learned
        await self._share([*names.union(self._sharing.behind(pulse.versions))])

    async def _share(self, names: Sequence[str]) -> None:
        engine = self._engine
        if engine is None:
            return
        for name in names:
            path = engine.caches().get(name)
            if path is None:
                continue
            await engine.exchange(name)
            if await self._sharing(name, path):
                await engine.exchange(name)

    async def _carry_out(self, engine: Engine, order: Order) -> None:
        refusal = None
        try:
            await (engine.load(order.model) if order.what == LOAD else engine.unload(order.model))
        except ProtocolError as error:
            refusal = Refusal.of(error)
        self._orders = order.number
        await self._ask("report", self._state(engine))  # so that the picture is right when it is done
        await self._ask("done", self._name, order.number, refusal)

    def _state(self, engine: Engine) -> Report:
        states = engine.index()
        models = {}
        for state in states:
            with contextlib.suppress(ProtocolError):
                models[state.name, state.version] = engine.metadata(state.name, state.version)
        return Report(
            replica=self._name,
            node=self._node,
            pid=os.getpid(),
            ready=engine.ready(),
            orders=self._orders,
            states=states,
            models=models,
            counters=engine.counters(),
            stats=engine.stats(),
        )


def _learned(engine: Engine) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {}
    for (name, _), stats in engine.stats().items():
        counts.setdefault(name, []).append(stats.tuned + stats.revalidated + stats.denied)
    return counts


def _kind() -> str:
    """The devices here, as results know them."""
    try:
        return json.dumps([vars(target.machine) for target in targets()], sort_keys=True, default=str)
    except Exception as error:
        raise SettingsError(f"this node's devices cannot be listed: {error}") from error
