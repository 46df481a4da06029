"""Before a model is ready: runs with the shapes that will come, and measuring what the cache knows of."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

import onnxruntime as ort

from .._shapes import Feeds, make_feeds
from ..tuning import warm, warm_from_cache
from .model import Model
from .protocol import Kind, ProtocolError
from .settings import shapes_of as shapes_of

logger = logging.getLogger("tunableop")


def warm_up(model: Model, *, from_cache: bool) -> None:
    """Runs `model.settings.warm`, and measures what comes up. Blocks.

    Raises:
        ProtocolError: FAILED; the model does not run with those shapes.
    """
    began = time.monotonic()
    shapes = model.settings.warm
    tuned = 0
    try:
        if model.tunes:
            if from_cache:
                tuned += warm_from_cache(model.session).tuned
            if shapes:
                tuned += warm(model.session, shapes).tuned
        elif shapes:
            _run_all(model.session, shapes)
    except Exception as error:
        raise ProtocolError(
            Kind.FAILED, f"model '{model.name}' version {model.version} cannot be warmed: {error}"
        ) from error
    if shapes or from_cache:
        logger.info(
            "model '%s' version %s: warmed in %.1f s, %d problems measured",
            model.name,
            model.version,
            time.monotonic() - began,
            tuned,
        )


def _run_all(session: ort.InferenceSession, shapes: Sequence[Mapping[str, Sequence[int]]]) -> None:
    feeds: Feeds
    for feeds in make_feeds(session, shapes):
        session.run(None, feeds)
