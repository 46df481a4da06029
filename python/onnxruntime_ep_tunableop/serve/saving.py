"""Tuning results of models in service to disk and back, beside the requests."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import _control
from .model import Model
from .protocol import ProtocolError

logger = logging.getLogger("tunableop")

_Mark = tuple[int, int, int]
_PARTS = ("entries", "nodes", "forms", "denied")


class Exchange:
    """Saves what a model learned, and takes what others saved to the same file. From any thread.

    What is loaded replaces what the session knows, so only what it does not know yet is a reason to load, and
    only after a save, which keeps the later of two measurements.
    """

    def __init__(self, model: Model) -> None:
        """The session has loaded the file just now."""
        self._model = model
        self._mark = _mark(model.cache)
        self._offered: set[str] = set()
        self._one_at_a_time = threading.Lock()

    def __call__(self) -> int:
        """How many results were new. Blocks. Trouble is logged, and tried again the next time."""
        model = self._model
        if model.cache is None or not model.tunes:
            return 0
        try:
            with self._one_at_a_time:
                return self._exchange(model.cache)
        except ProtocolError:  # it is being unloaded, which saves, too
            return 0
        except Exception as error:
            logger.warning("model '%s': the cache '%s' was not shared: %s", model.name, model.cache, error)
            return 0

    def _exchange(self, path: Path) -> int:
        model = self._model
        model.save()
        mark = _mark(path)
        if mark is None or mark == self._mark:
            return 0
        news = self._news(path)
        if news and news != self._offered:
            for problem in _control.load_cache(model.session, path):
                logger.debug("model '%s': %s", model.name, problem)
            logger.info("model '%s': %d tuning results of others loaded", model.name, len(news))
        self._offered = news  # what the session does not take (of another library) is new for ever
        self._mark = mark
        return len(news)

    def _news(self, path: Path) -> set[str]:
        own = _control.get_tuning_results(self._model.session)
        fingerprints = [section.get("fingerprint") for section in own["machines"]]
        theirs = json.loads(path.read_text(encoding="utf-8"))
        here = [section for section in theirs["machines"] if section.get("fingerprint") in fingerprints]
        return set(lines(here)) - set(lines(own["machines"]))


def lines(sections: list[Mapping[str, Any]]) -> Iterator[str]:
    """Each result as text. How often it was used is no news."""
    for section in sections:
        for part in _PARTS:
            for element in section.get(part, ()):
                yield json.dumps({**element, "uses": 0}, sort_keys=True)


def _mark(path: Path | None) -> _Mark | None:
    """What changes when the file does: each save puts a new one in its place."""
    if path is None:
        return None
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size
