"""What /metrics says, with prometheus-client."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from .front import Front


class Metrics:
    """A registry of its own: several servers may live in one process."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self.registry = CollectorRegistry()

    def text(self) -> tuple[bytes, str]:
        """In Prometheus' text form, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
