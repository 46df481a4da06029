"""What is told to a server on a Ray cluster, beside what every server is told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..settings import ModelSettings, ServerSettings


@dataclass(frozen=True)
class RaySettings:
    """Sizes in bytes."""

    address: str | None = None  #: HOST:PORT or "auto" of a cluster; None: one of its own, which ends with it
    replicas: int = 1  #: at the start, and always where `most` is None
    most: int | None = None  #: of replicas; as many as the load needs, `replicas` at least
    cpus: float = 1.0  #: of each replica
    gpus: float = 0.0  #: likewise
    #: Requests at a replica that Ray adds another one for, when there may be more.
    target_requests: float = 32.0
    app: str = "tunableop"  #: name of the application in Ray Serve
    object_store: int | None = None  #: of a cluster of its own; None: as Ray does, a share of the memory

    @property
    def largest(self) -> int:
        """Replicas at most."""
        return self.replicas if self.most is None else self.most


def ongoing_requests(settings: ServerSettings) -> int:
    """Requests that a replica takes at a time.

    More than its models' batches need, so that they fill, and less than their queues hold, so that a replica
    that is slow does not keep what another one could run.
    """
    default = ModelSettings("", Path())
    rows = [model.max_batch * model.instances for model in settings.models]
    batch = settings.defaults.get("max_batch", default.max_batch)
    instances = settings.defaults.get("instances", default.instances)
    return 4 * max([*rows, int(batch) * int(instances)])
