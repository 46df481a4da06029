"""The sides of a comparison: sessions in this process, or in a process of any Python.

Whoever compares opens each side with the same feeds, asks for `outputs`, and lets `turns` call `block`. A
side of either kind behaves the same way; what can go wrong is a SideError that names the side.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from numpy.typing import NDArray

from .against import Against, parse_against, stock_providers
from .other_process import OtherProcess
from .spec import Facts, Feeds, SideError, SideSpec, SideStats
from .turns import Timing
from .worker import Runner, WorkerError
from .worker.service import peak_bytes
from .worker_process import Limits

__all__ = [
    "Against",
    "Facts",
    "Feeds",
    "InProcess",
    "Limits",
    "OtherProcess",
    "Side",
    "SideError",
    "SideSpec",
    "SideStats",
    "Timing",
    "open_side",
    "parse_against",
    "stock_providers",
]

_Self = TypeVar("_Self", bound="Side")


class Side(Protocol):
    """A session that is measured. One caller at a time. Close it, or use it as a context manager."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def facts(self) -> Facts:
        """Versions, providers, what making it took; as it was when the side was opened."""

    def outputs(self) -> dict[str, NDArray[Any]]:
        """What one request answers, by output. bfloat16 is widened to float32.

        Of a sequence or map each part is an array of its own, "name[0]".
        """

    def block(self, *, seconds: float | None, calls: int | None, warmup_calls: int) -> Timing:
        """Times requests until `seconds` are over or `calls` are made by all callers together.

        `warmup_calls` requests of each caller go before, untimed. A side that never ran makes one more.
        """

    def stats(self) -> SideStats:
        """Counters and reasons of a side of ours at present; empty for a stock one."""

    def peak_bytes(self) -> int:
        """The most memory its process had resident: its own only in another process."""

    def close(self) -> None:
        """Ends the session, and its process if it has one. Once is enough, more do nothing."""

    def __enter__(self: _Self) -> _Self:
        """Itself."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""


class InProcess:
    """A side in this process. Raises SideError; options of ours that are wrong raise OptionError."""

    def __init__(self, spec: SideSpec, feeds: Feeds) -> None:
        self._spec = spec
        try:
            self._runner = Runner(spec.as_json(), feeds)
        except WorkerError as error:
            raise self._error(error) from error
        self._facts = cast("Facts", self._runner.facts())

    def _error(self, error: Exception) -> SideError:
        return SideError(f"{self._spec.name}: {error}")

    @property
    def name(self) -> str:
        """What reports call it."""
        return self._spec.name

    def facts(self) -> Facts:
        """See Side."""
        return self._facts

    def outputs(self) -> dict[str, NDArray[Any]]:
        """See Side."""
        try:
            return self._runner.outputs()
        except WorkerError as error:
            raise self._error(error) from error

    def block(self, *, seconds: float | None, calls: int | None, warmup_calls: int) -> Timing:
        """See Side."""
        try:
            wall, latencies = self._runner.block(seconds=seconds, calls=calls, warmup_calls=warmup_calls)
        except WorkerError as error:
            raise self._error(error) from error
        return Timing(wall, tuple(latencies))

    def stats(self) -> SideStats:
        """See Side."""
        try:
            return cast("SideStats", self._runner.stats())
        except WorkerError as error:
            raise self._error(error) from error

    def peak_bytes(self) -> int:
        """Of this whole process."""
        return peak_bytes()

    def close(self) -> None:
        """Ends the session."""
        self._runner.close()

    def __enter__(self) -> InProcess:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()


def open_side(spec: SideSpec, feeds: Feeds, python: Path | None = None, limits: Limits | None = None) -> Side:
    """A side in this process, or in one of `python` (which may be this Python, too).

    Raises:
        SideError: it cannot be made; the message says why.
        OptionError, NoDeviceError ...: what our own provider raises, wherever it runs.
    """
    if python is None:
        return InProcess(spec, feeds)
    return OtherProcess(python, spec, feeds, limits)
