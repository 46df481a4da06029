"""The engine: models, and requests run on them."""

from __future__ import annotations

import asyncio

from .model import Model
from .protocol import InferRequest, InferResponse, Kind, ProtocolError
from .settings import ServerSettings


class Engine:
    """Runs requests."""

    def __init__(self, models: dict[str, Model]) -> None:
        self._models = models

    @classmethod
    async def start(cls, settings: ServerSettings) -> Engine:
        """Loads the models."""
        models = {}
        for entry in settings.models:
            models[entry.name] = await asyncio.to_thread(
                Model, entry, "1", entry.path, settings.state / f"{entry.name}.tune.json"
            )
        return cls(models)

    async def infer(self, request: InferRequest) -> InferResponse:
        """Runs a request."""
        model = self._models.get(request.model)
        if model is None:
            raise ProtocolError(Kind.NOT_FOUND, f"there is no model '{request.model}'")
        checked = model.signature.check(request)
        arrays = await asyncio.to_thread(lambda: model.run(model.prepare(checked), checked.outputs))
        return InferResponse(model.name, model.version, request.id, model.tensors(checked, arrays))
