"""What /metrics says, with prometheus-client: requests as front ends see them, and the engine's counters."""

from __future__ import annotations

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from .engine_metrics import Counting, EngineMetrics
from .front import Front
from .protocol import ProtocolError
from .records import Record

#: Seconds: from a small product to a large model.
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_INFER = ("infer", "ModelInfer", "ModelStreamInfer")


class Metrics:
    """A registry of its own: several servers may live in one process."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self.registry = CollectorRegistry()
        by_request = ("protocol", "operation", "model", "outcome")
        self._requests = Counter(
            "tunableop_requests", "Requests that have ended", by_request, registry=self.registry
        )
        self._seconds = Histogram(
            "tunableop_request_seconds",
            "From an inference request's headers to its answer",
            ("protocol", "model"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        by_way = ("protocol", "model")
        self._in = Counter("tunableop_received_bytes", "Bodies received", by_way, registry=self.registry)
        self._out = Counter("tunableop_sent_bytes", "Bodies sent", by_way, registry=self.registry)
        in_flight = Gauge(
            "tunableop_in_flight", "Inference requests that wait for an answer", registry=self.registry
        )
        in_flight.set_function(lambda: float(front.in_flight))
        places = Gauge(
            "tunableop_places",
            "Inference requests from before their body to the end of their answer, of --max-requests",
            registry=self.registry,
        )
        places.set_function(lambda: float(front.places))
        ready = Gauge("tunableop_ready", "1 when requests are welcome", registry=self.registry)
        ready.set_function(lambda: float(front.ready()))
        if isinstance(front.engine, Counting):
            self.registry.register(EngineMetrics(front.engine))

    def observe(self, record: Record) -> None:
        """A request has ended."""
        model = self._known(record.model)
        self._requests.labels(record.protocol, record.operation, model, record.outcome).inc()
        self._in.labels(record.protocol, model).inc(record.bytes_in)
        self._out.labels(record.protocol, model).inc(record.bytes_out)
        if record.operation in _INFER and record.outcome == "ok":
            self._seconds.labels(record.protocol, model).observe(record.seconds)

    def text(self) -> tuple[bytes, str]:
        """In Prometheus' text form, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST

    def _known(self, model: str) -> str:
        """Clients may ask for any name: only those that there are become series."""
        if model:
            try:
                self._front.engine.model_ready(model)
            except ProtocolError:
                return "unknown"
        return model
