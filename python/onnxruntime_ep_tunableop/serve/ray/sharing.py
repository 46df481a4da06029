"""Files of results of one replica, and the board's: each gets what the other has."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ... import _core
from .board import version_of

logger = logging.getLogger("tunableop")

#: Board.exchange, near or far.
Exchange = Callable[[str, str | None], Awaitable[tuple[str, str | None]]]


class Sharing:
    """For the event loop; files are read and written in place, they are small."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._versions: dict[str, str] = {}  # of what file and board had in common, by model

    def behind(self, versions: Mapping[str, str]) -> list[str]:
        """Models of which the board knows something else than was seen here, or nothing any more."""
        lost = [model for model, version in self._versions.items() if version and model not in versions]
        for model in lost:
            del self._versions[model]
        return lost + [model for model, version in versions.items() if self._versions.get(model) != version]

    async def __call__(self, model: str, path: Path) -> bool:
        """Whether the file has got something new."""
        text = _read(path)
        here = "" if text is None else version_of(text)
        if here and here == self._versions.get(model):
            text = None  # the board has it
        version, theirs = await self._exchange(model, text)
        self._versions[model] = version
        if theirs is None or version == here:
            return False
        merge(path, theirs)
        return True


def merge(path: Path, text: str) -> None:
    """Merges results into a file, as a save does. OSError: it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tunableop-") as folder:
        source = Path(folder) / "results.json"
        source.write_text(text, encoding="utf-8")
        _core.merge_results(path, [source])


def _read(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
        version_of(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.warning("the results in '%s' are not shared: %s", path, error)
        return None
    return text
