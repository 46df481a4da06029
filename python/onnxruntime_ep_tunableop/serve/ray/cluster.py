"""Ray itself: a cluster of one's own or another's, the application on it, and its end. Everything blocks."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from typing import Any

import ray
from ray import serve

from ..settings import ServerSettings, SettingsError
from .board import Board
from .replica import Replica, Told
from .settings import RaySettings, ongoing_requests

NAMESPACE = "tunableop"

#: Requests that wait here for a replica, for each that one may take.
_QUEUED = 4


class Cluster:
    """Connected to; used by one thread at a time, but for `end`."""

    def __init__(self, settings: RaySettings) -> None:
        """Raises SettingsError where there is no cluster, or none can be started."""
        self._settings = settings
        self._own = settings.address is None
        self._board_name = f"board-{settings.app}"
        try:
            if settings.address is None:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
                ray.init(
                    # Without it Ray joins a cluster that runs here, or did, and the end would be that one's.
                    address="local",
                    # More replicas than processors can be wanted where there are several nodes only.
                    num_cpus=max(os.cpu_count() or 1, int(settings.largest * settings.cpus + 1)),
                    include_dashboard=False,
                    object_store_memory=settings.object_store,
                    log_to_driver=False,
                    logging_level=logging.WARNING,
                    namespace=NAMESPACE,
                )
            else:
                ray.init(
                    address=settings.address,
                    log_to_driver=False,
                    logging_level=logging.WARNING,
                    namespace=NAMESPACE,
                )
            logging.getLogger("ray.serve").setLevel(logging.WARNING)
            # Clients talk to our front ends: no proxies.
            serve.start(proxy_location="Disabled")
        except Exception as error:
            with contextlib.suppress(Exception):
                ray.shutdown()
            raise SettingsError(f"Ray: {error}") from error

    def board(self, seeds: Mapping[str, str]) -> Any:
        """The actor. It is made anew, without memory, where it is lost; it ends with this process."""
        actor = ray.remote(Board).options(
            name=self._board_name, num_cpus=0, max_restarts=-1, max_concurrency=1000, max_task_retries=3
        )
        return actor.remote(dict(seeds))

    def deploy(self, settings: ServerSettings, grace: float) -> Any:
        """A handle, when replicas run. RuntimeError: they cannot."""
        told = self._settings
        ongoing = ongoing_requests(settings)
        autoscaling = None
        if told.most is not None:
            autoscaling = {
                "min_replicas": told.replicas,
                "max_replicas": told.most,
                "target_ongoing_requests": told.target_requests,
            }
        deployment = serve.deployment(Replica).options(
            name="replica",
            num_replicas=None if autoscaling else told.replicas,
            autoscaling_config=autoscaling,
            ray_actor_options={"num_cpus": told.cpus, "num_gpus": told.gpus},
            max_ongoing_requests=ongoing,
            max_queued_requests=_QUEUED * ongoing * told.largest,
            graceful_shutdown_wait_loop_s=0.2,
            graceful_shutdown_timeout_s=grace,
            health_check_period_s=2.0,
            health_check_timeout_s=30.0,
            user_config={},  # so that `reconfigure` is called, which may await
        )
        bound = deployment.bind(Told(settings, self._board_name, NAMESPACE, grace))
        return serve.run(bound, name=told.app, route_prefix=None)

    def end(self) -> None:
        """Replicas answer what they have, save, and end; then what was started here ends."""
        with contextlib.suppress(Exception):
            serve.delete(self._settings.app)

    def disconnect(self) -> None:
        """After `end`. A cluster of one's own ends with it."""
        with contextlib.suppress(Exception):
            if self._own:
                serve.shutdown()
        ray.shutdown()
