"""The engine: every model in service, and their coming and going."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import _control
from .counters import Counters
from .protocol import InferRequest, InferResponse, Kind, ModelMetadata, ModelState, ProtocolError, is_found
from .repository import CONFIG, TRITON_CONFIG, Found, Repository, triton_config
from .service import Service
from .settings import ModelSettings, ServerSettings, SettingsError, shapes_of
from .workers import Workers

logger = logging.getLogger("tunableop")

READY, UNAVAILABLE, LOADING, UNLOADING = "READY", "UNAVAILABLE", "LOADING", "UNLOADING"

#: Seconds after which a client may ask again for a model that is being loaded, or from another replica.
_COME_AGAIN = 1.0
#: Share of the grace time kept for saving and ending sessions.
_FOR_SAVING = 0.25
#: Loads, saves and ends at a time: they are bound by disk and memory, and requests need the processors.
_HOUSEKEEPERS = 2


class _Shelf:
    """The versions of one model."""

    def __init__(self) -> None:
        self.services: dict[str, Service] = {}
        self.newest = ""
        self.states: dict[str, ModelState] = {}
        self.wanted = False  #: to be there: the server is not ready without it
        self.changing = asyncio.Lock()  #: held by what loads or unloads it

    def put(self, services: Mapping[str, Service]) -> list[Service]:
        """Takes these in place of those that are there, which are returned."""
        before = list(self.services.values())
        self.services = dict(services)
        self.newest = max(services, key=int, default="")
        return before


class Engine:
    """Implements `Serving`; see there for what may be called when."""

    def __init__(self, settings: ServerSettings) -> None:
        """Use `start`."""
        self._settings = settings
        self._repository = Repository(settings)
        self._shelves: dict[str, _Shelf] = {}
        self._counters: dict[tuple[str, str], Counters] = {}
        self._threads = Workers(_HOUSEKEEPERS, "serve")
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._until_closing: list[asyncio.Task[None]] = []
        self._loaded = asyncio.Event()
        self._retiring: set[Service] = set()
        #: After `shut_down`: threads are still in ONNX Runtime, which would crash in an ordinary exit. Use
        #: os._exit then.
        self.stuck = False
        #: Of these, some were runs, or saves of what was learned: not only loads, which nobody waits for.
        self.lost = False

    @classmethod
    async def start(cls, settings: ServerSettings) -> Engine:
        """An engine that is live, and loads its models: see `loaded`.

        Raises:
            SettingsError: the repository cannot be read, or a model that is to be loaded is not there.
        """
        engine = cls(settings)
        try:
            found = await engine._threads.submit(engine._repository.scan)
            names = list(found) if settings.load is None else list(settings.load)
            if unknown := [name for name in names if name not in found]:
                known = ", ".join(found) or "none"
                raise SettingsError(f"there is no model {', '.join(unknown)}; there are: {known}")
        except BaseException:
            engine._threads.close()
            raise
        for name, entry in found.items():
            engine._note(name, entry, LOADING if name in names else UNAVAILABLE)
        for name in names:
            engine._shelves[name].wanted = True
        engine._until_closing.append(engine._go(engine._load_first({name: found[name] for name in names})))
        if settings.save_every > 0.0:
            engine._until_closing.append(engine._go(engine._save_now_and_then()))
        return engine

    async def loaded(self) -> Sequence[ModelState]:
        """Waits until every model of the start is ready or has failed (or `shut_down`); those that failed."""
        await self._loaded.wait()
        return [
            state
            for shelf in self._shelves.values()
            if shelf.wanted
            for state in shelf.states.values()
            if state.state == UNAVAILABLE
        ]

    async def infer(self, request: InferRequest) -> InferResponse:
        """See Serving."""
        return await self._service(request.model, request.version).infer(request)

    def live(self) -> bool:
        """See Serving."""
        return True

    def ready(self) -> bool:
        """See Serving."""
        return (
            not self._closing
            and self._loaded.is_set()
            and all(shelf.services for shelf in self._shelves.values() if shelf.wanted)
        )

    def model_ready(self, name: str, version: str = "") -> bool:
        """See Serving."""
        return is_found(lambda: self._service(name, version)) and not self._closing

    def metadata(self, name: str, version: str = "") -> ModelMetadata:
        """See Serving."""
        service = self._service(name, version)
        return service.model.metadata(sorted(self._shelves[name].services, key=int))

    def index(self) -> Sequence[ModelState]:
        """See Serving. As the repository was when it was last looked at, which each `load` does."""
        return [state for shelf in self._shelves.values() for state in shelf.states.values()]

    def tuning(self, name: str, version: str = "") -> Mapping[str, Any]:
        """See Serving."""
        return self._service(name, version).tuning()

    def counters(self) -> Mapping[tuple[str, str], Counters]:
        """By name and version, of every one that was ever in service here."""
        return self._counters

    def stats(self) -> Mapping[tuple[str, str], _control.Stats]:
        """The tuner's counters by name and version, of those in service that tune."""
        every = {
            (name, version): service.stats()
            for name, shelf in self._shelves.items()
            for version, service in shelf.services.items()
        }
        return {key: stats for key, stats in every.items() if stats is not None}

    def caches(self) -> Mapping[str, Path]:
        """By name, of models in service: the file of what they learned."""
        return {
            service.model.name: service.model.cache
            for service in self._services()
            if service.model.cache is not None
        }

    async def exchange(self, name: str | None = None) -> None:
        """Saves what a model (None: each) learned, and takes what others saved to the same file."""
        for service in self._services():
            if name in (None, service.model.name):
                await self._threads.submit(service.exchange)

    async def load(self, name: str) -> None:
        """See Serving."""
        self._refuse_when_closing()
        try:
            found = await self._threads.submit(self._repository.scan)
        except SettingsError as error:
            raise ProtocolError(Kind.FAILED, str(error)) from error
        for other, entry in found.items():
            if other not in self._shelves:
                self._note(other, entry, UNAVAILABLE)
        if name not in found:
            raise _no_model(name, found)
        await self._load(name, found[name])

    async def unload(self, name: str) -> None:
        """See Serving."""
        shelf = self._shelves.get(name)
        if shelf is None:
            raise _no_model(name, self._shelves)
        async with shelf.changing:
            shelf.wanted = False
            before = shelf.put({})
            shelf.states = {version: ModelState(name, version, UNLOADING) for version in shelf.states}
            try:
                await asyncio.shield(self._go(self._retire(before)))
            finally:
                shelf.states = {
                    version: ModelState(name, version, UNAVAILABLE, "unloaded") for version in shelf.states
                }

    async def shut_down(self, grace: float) -> None:
        """See Serving. Comes back within `grace` seconds even when a run or a save does not."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        self._closing = True
        for task in self._until_closing:
            task.cancel()
        services = self._services()
        for service in services:
            service.close(_going_down)
        if services:
            late = await _drain(services, grace * (1.0 - _FOR_SAVING))
            if late:
                for service in late:
                    service.give_up(_going_down)
                # Runs that can be stopped end soon.
                late = await _drain(late, max(0.0, end - loop.time()) / 2)
            if late:
                logger.warning("%d models still run; their sessions are not ended", len(late))
            threads = Workers(len(services), "end")  # of its own: others may be loading still
            saves = [
                asyncio.ensure_future(service.save(threads) if service in late else service.end(threads))
                for service in services
            ]
            _, unsaved = await asyncio.wait(saves, timeout=max(0.0, end - loop.time()))
            if unsaved:
                logger.warning("%d caches were not saved in the grace time", len(unsaved))
            threads.close()
            self.lost = bool(late or unsaved)
        self.stuck = self.lost or self._threads.busy
        for shelf in self._shelves.values():
            shelf.put({})
        self._threads.close()

    def _service(self, name: str, version: str) -> Service:
        shelf = self._shelves.get(name)
        if shelf is None:
            raise _no_model(name, self._shelves)
        service = shelf.services.get(version or shelf.newest)
        if service is None:
            if version and version not in shelf.states:
                versions = ", ".join(shelf.states) or "none"
                raise ProtocolError(
                    Kind.NOT_FOUND,
                    f"there is no version '{version}' of model '{name}'; there are: {versions}",
                )
            self._refuse_when_closing()
            state = shelf.states.get(version) or next(iter(shelf.states.values()), None)
            why = state.reason or state.state.lower() if state else "not loaded"
            raise ProtocolError(Kind.UNAVAILABLE, f"model '{name}' is not ready: {why}", _COME_AGAIN)
        return service

    def _services(self) -> list[Service]:
        in_service = [service for shelf in self._shelves.values() for service in shelf.services.values()]
        return [*in_service, *self._retiring]

    def _refuse_when_closing(self) -> None:
        if self._closing:
            raise _going_down()

    def _note(self, name: str, found: Found, state: str) -> _Shelf:
        shelf = self._shelves.setdefault(name, _Shelf())
        versions = list(found.versions) or [""]
        reason = found.reason
        shelf.states = {
            version: ModelState(name, version, UNAVAILABLE if reason else state, reason)
            for version in versions
        }
        return shelf

    async def _load_first(self, found: Mapping[str, Found]) -> None:
        try:
            for name, entry in found.items():  # one by one: each may need all processors to warm up
                try:
                    await self._load(name, entry)
                except Exception as error:
                    logger.error("model '%s' is not there: %s", name, error)
        finally:
            self._loaded.set()

    async def _load(self, name: str, found: Found) -> None:
        shelf = self._shelves[name]
        async with shelf.changing:
            self._refuse_when_closing()
            before = dict(shelf.states)
            self._note(name, found, LOADING)
            made: dict[str, Service] = {}
            try:
                if found.settings is None or not found.versions:
                    raise ProtocolError(Kind.FAILED, f"model '{name}': {found.reason}")
                for service in shelf.services.values():
                    # What it learned, the next one finds in the file.
                    await self._threads.submit(service.exchange)
                if triton_config(found.settings.path):
                    logger.warning(
                        "model '%s': %s is Triton's and not read: what it says belongs into %s",
                        name,
                        TRITON_CONFIG,
                        CONFIG,
                    )
                for version, path in found.versions.items():
                    made[version] = await self._make(found.settings, version, path)
                self._refuse_when_closing()
            except BaseException as error:
                # What was in service stays there.
                for service in made.values():
                    service.close(_going_down)
                    self._go(service.end(self._threads))
                shelf.states = (
                    before
                    if shelf.services
                    else {
                        version: ModelState(name, version, UNAVAILABLE, str(error) or "cancelled")
                        for version in shelf.states
                    }
                )
                raise
            shelf.wanted = True
            retired = shelf.put(made)
            shelf.states = {version: ModelState(name, version, READY) for version in made}
        self._go(self._retire(retired))

    async def _make(self, settings: ModelSettings, version: str, path: Path) -> Service:
        if not settings.warm:
            settings = replace(settings, warm=shapes_of(self._settings.warm, settings.name))
        return await Service.load(
            settings,
            version,
            path,
            self._settings.state / f"{settings.name}.tune.json",
            warm_from_cache=self._settings.warm_from_cache,
            counters=self._counters.setdefault((settings.name, version), Counters()),
            threads=self._threads,
        )

    async def _retire(self, services: Sequence[Service]) -> None:
        """Answers what they accepted, saves, and ends them."""
        self._retiring.update(services)
        for service in services:
            service.close(lambda: ProtocolError(Kind.UNAVAILABLE, "the model was unloaded", _COME_AGAIN))
        for service in services:
            await service.drain()
            await service.end(self._threads)
            self._retiring.discard(service)

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._settings.save_every)
            await self.exchange()

    def _go(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _drain(services: Collection[Service], timeout: float) -> list[Service]:
    """Those that are not done in time."""
    drains = {asyncio.ensure_future(service.drain()): service for service in services}
    _, late = await asyncio.wait(drains, timeout=timeout)
    for drain in late:
        drain.cancel()
    return [drains[drain] for drain in late]


def _no_model(name: str, known: Mapping[str, Any]) -> ProtocolError:
    names = ", ".join(known) or "none"
    return ProtocolError(Kind.NOT_FOUND, f"there is no model '{name}'; there are: {names}")


def _going_down() -> ProtocolError:
    return ProtocolError(Kind.UNAVAILABLE, "the server is going down", _COME_AGAIN)
