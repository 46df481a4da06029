"""What a front end may ask of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .protocol import InferRequest, InferResponse, ModelMetadata, ModelState


class Serving(Protocol):
    """All methods may be called from the event loop only; errors are ProtocolError."""

    async def infer(self, request: InferRequest) -> InferResponse:
        """Runs a request, perhaps in a batch with others. Cancelling it gives its place up."""

    def live(self) -> bool:
        """The process answers."""

    def ready(self) -> bool:
        """Every model that is to be there is, and the server is not going down."""

    def model_ready(self, name: str, version: str = "") -> bool:
        """NOT_FOUND where there is none of that name."""

    def metadata(self, name: str, version: str = "") -> ModelMetadata:
        """NOT_FOUND, or UNAVAILABLE while it loads."""

    def index(self) -> Sequence[ModelState]:
        """Every model that is known, loaded or not."""

    async def load(self, name: str) -> None:
        """From the repository; one that is loaded is loaded anew and swapped in when it is ready."""

    async def unload(self, name: str) -> None:
        """Accepted requests are answered first."""

    def tuning(self, name: str, version: str = "") -> Mapping[str, Any]:
        """The tuning results of a model's session, as `save_cache` writes them, and its counters."""

    async def shut_down(self, grace: float) -> None:
        """Takes no more requests, answers what it accepted (for `grace` seconds), saves, and ends."""
