"""What the front ends ask: requests go to replicas, everything else is answered from what those report."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from ... import _control
from ..counters import Counters
from ..protocol import InferRequest, InferResponse, Kind, ModelMetadata, ModelState, ProtocolError, is_found
from ..settings import ServerSettings
from ..workers import Workers
from .board import LOAD, UNLOAD, Look
from .cluster import Cluster
from .picture import Key, Picture
from .retry import LOST, Attempts
from .settings import RaySettings
from .sharing import merge
from .traffic import Asked, Refusal

logger = logging.getLogger("tunableop")

#: Seconds between looks at the board.
_BEAT = 0.5
#: Seconds after which a client may ask again.
_COME_AGAIN = 1.0
#: Seconds that a request waits for a replica, where all are gone or busy, when it has no deadline.
_PATIENCE = 60.0
#: Share of the grace time kept for ending Ray itself.
_FOR_RAY = 0.3


class RayEngine:
    """Implements `Serving` and `Counting`; see there for what may be called when."""

    def __init__(self, settings: ServerSettings, cluster: Cluster, board: Any, workers: Workers) -> None:
        """Use `start`."""
        self._settings = settings
        self._cluster = cluster
        self._board = board
        self._workers = workers
        self._handle: Any = None
        self._picture = Picture()
        self._results: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        self._closing = False
        self._why_not = "the replicas are being started"
        self._tasks: set[asyncio.Task[None]] = set()
        self._looked = asyncio.Event()

    @classmethod
    async def start(cls, settings: ServerSettings, ray_settings: RaySettings, grace: float) -> RayEngine:
        """An engine that is live, and whose replicas are being started.

        Raises:
            SettingsError: there is no such cluster, or none can be started.
        """
        workers = Workers(2, "ray")  # of which one is kept by a deployment that cannot be done yet
        seeds = await asyncio.to_thread(_seeds, settings)
        try:
            cluster = await workers.submit(Cluster, ray_settings)
            board = await workers.submit(cluster.board, seeds)
        except BaseException:
            workers.close()
            raise
        engine = cls(settings, cluster, board, workers)
        engine._go(engine._deploy(grace))
        engine._go(engine._watch())
        return engine

    async def infer(self, request: InferRequest) -> InferResponse:
        """See Serving. A request whose replica dies is run on another one."""
        attempts = Attempts(request.model)
        while True:
            self._check(request.model, request.version)
            try:
                result = await self._ask(request)
            except LOST as error:
                attempts.died(error)
                logger.warning("a replica died at a request, which goes to another one")
                continue
            if not isinstance(result, Refusal):
                return result
            await attempts.refused(result)

    async def _ask(self, request: InferRequest) -> InferResponse | Refusal:
        response = self._handle.infer.remote(Asked.of(request))
        patience = _PATIENCE if request.deadline is None else None  # the front ends watch deadlines
        try:
            answer: InferResponse | Refusal = await asyncio.wait_for(response, patience)
        except asyncio.CancelledError:
            response.cancel()
            raise
        except (asyncio.TimeoutError, DeploymentUnavailableError):
            response.cancel()
            raise ProtocolError(Kind.UNAVAILABLE, "no replica takes the request", _COME_AGAIN) from None
        except BackPressureError as error:
            raise ProtocolError(Kind.BUSY, f"every replica is busy: {error}", _COME_AGAIN) from None
        return answer

    def live(self) -> bool:
        """See Serving."""
        return True

    def ready(self) -> bool:
        """See Serving. One replica is enough."""
        return not self._closing and self._handle is not None and self._picture.ready()

    def model_ready(self, name: str, version: str = "") -> bool:
        """See Serving."""
        return is_found(lambda: self._check(name, version)) and not self._closing

    def metadata(self, name: str, version: str = "") -> ModelMetadata:
        """See Serving."""
        return self._check(name, version)

    def index(self) -> Sequence[ModelState]:
        """See Serving."""
        return self._picture.states

    def tuning(self, name: str, version: str = "") -> Mapping[str, Any]:
        """See Serving. `results` is what all replicas measured, `stats` and `serving` their sums."""
        key = (name, version or self._check(name, "").versions[-1])
        self._check(*key)
        document: dict[str, Any] = {"model": name, "version": key[1]}
        if name in self._results:
            document["results"] = json.loads(self._results[name])
        if (stats := self.stats().get(key)) is not None:
            document["stats"] = asdict(stats)
        document["serving"] = self.counters().get(key, Counters()).snapshot()
        document["replicas"] = [
            {
                "replica": report.replica,
                "node": report.node,
                "pid": report.pid,
                "stats": asdict(report.stats[key]) if key in report.stats else None,
                "serving": report.counters.get(key, Counters()).snapshot(),
            }
            for report in self._picture.replicas
        ]
        return document

    def counters(self) -> Mapping[Key, Counters]:
        """Of all replicas together."""
        return self._picture.counters()

    def stats(self) -> Mapping[Key, _control.Stats]:
        """Of all replicas together."""
        return self._picture.stats()

    async def load(self, name: str) -> None:
        """See Serving. On every replica."""
        await self._order(LOAD, name)

    async def unload(self, name: str) -> None:
        """See Serving. On every replica."""
        await self._order(UNLOAD, name)

    async def shut_down(self, grace: float) -> None:
        """See Serving. What was measured is in the state folder of this machine afterwards, too."""
        self._closing = True
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        for task in self._tasks:
            task.cancel()
        ending = self._workers.submit(self._cluster.end)
        await asyncio.wait({ending}, timeout=grace * (1.0 - _FOR_RAY))
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._look(), max(0.5, (end - loop.time()) / 4))
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._save)
        leaving = self._workers.submit(self._cluster.disconnect)
        await asyncio.wait({leaving}, timeout=max(1.0, end - loop.time()))
        self._workers.close()

    def _check(self, name: str, version: str) -> ModelMetadata:
        if self._closing:
            raise ProtocolError(Kind.UNAVAILABLE, "the server is going down", _COME_AGAIN)
        picture = self._picture
        if self._handle is None or not picture.replicas:
            raise ProtocolError(Kind.UNAVAILABLE, self._why_not, _COME_AGAIN)
        states = picture.by_name.get(name)
        if not states:
            names = ", ".join(picture.by_name) or "none"
            raise ProtocolError(Kind.NOT_FOUND, f"there is no model '{name}'; there are: {names}")
        if version and version not in {state.version for state in states}:
            versions = ", ".join(state.version for state in states)
            raise ProtocolError(
                Kind.NOT_FOUND, f"there is no version '{version}' of model '{name}'; there are: {versions}"
            )
        metadata = picture.metadata(name, version)
        if metadata is None:
            why = states[0].reason or states[0].state.lower()
            raise ProtocolError(Kind.UNAVAILABLE, f"model '{name}' is not ready: {why}", _COME_AGAIN)
        return metadata

    async def _order(self, what: str, name: str) -> None:
        if self._closing:
            raise ProtocolError(Kind.UNAVAILABLE, "the server is going down", _COME_AGAIN)
        if self._handle is None or not self._picture.replicas:
            raise ProtocolError(Kind.UNAVAILABLE, self._why_not, _COME_AGAIN)
        refusal: Refusal | None = await self._board.order.remote(what, name)
        await self._look()
        if refusal is not None:
            raise refusal.error()

    async def _deploy(self, grace: float) -> None:
        try:
            self._handle = await self._workers.submit(self._cluster.deploy, self._settings, grace)
        except Exception as error:
            self._why_not = f"the replicas cannot be started: {error}"
            logger.error("%s", self._why_not)
        else:
            await self._look()
            for state in self._picture.states:
                if state.reason:
                    logger.error("model '%s' is not there: %s", state.name, state.reason)

    async def _watch(self) -> None:
        while True:
            try:
                await self._look()
            except Exception as error:
                logger.warning("the replicas' board does not answer: %s", error)
            await asyncio.sleep(_BEAT)

    async def _look(self) -> None:
        look: Look = await self._board.look.remote(self._versions)
        self._picture = look.picture
        self._results.update(look.results)
        self._versions.update(look.versions)

    def _save(self) -> None:
        for name, text in self._results.items():
            merge(self._settings.state / f"{name}.tune.json", text)

    def _go(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _seeds(settings: ServerSettings) -> dict[str, str]:
    """Results that are kept on this machine, by model."""
    suffix = ".tune.json"
    seeds = {}
    for path in sorted(settings.state.glob(f"*{suffix}")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            seeds[path.name.removesuffix(suffix)] = path.read_text(encoding="utf-8")
    return seeds
