"""A side in a process of its own."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, cast

from numpy.typing import NDArray

from .spec import Facts, Feeds, SideSpec, SideStats
from .turns import Timing
from .worker.callers import wait_until_idle
from .worker_process import Limits, WorkerProcess


class OtherProcess:
    """A side in a process of `python`, which needs NumPy and onnxruntime, and our package for a side of ours.

    Raises SideError, and for a side of ours what our package raises there. See `sides.Side` for the methods.
    """

    def __init__(self, python: Path, spec: SideSpec, feeds: Feeds, limits: Limits | None = None) -> None:
        self._spec = spec
        self._process = WorkerProcess(python, f"{spec.name} ({python})", spec.kind == "tunableop", limits)
        try:
            self._facts = cast("Facts", self._process.open(spec.as_json(), feeds))
        except BaseException:
            self._process.kill()
            raise

    @property
    def name(self) -> str:
        """What reports call it."""
        return self._spec.name

    def facts(self) -> Facts:
        """Versions, providers, what making it took."""
        return self._facts

    def outputs(self) -> dict[str, NDArray[Any]]:
        """What one request answers, by output."""
        found: dict[str, NDArray[Any]] = self._process.ask("run")["arrays"]
        return found

    def timed_request(self) -> float:
        """Seconds that one request takes there, with whatever it allocates or measures."""
        return float(self._process.ask("request")["seconds"])

    def block(self, *, seconds: float | None, calls: int | None, warmup_calls: int) -> Timing:
        """Times requests there, once this process is idle."""
        wait_until_idle()
        told = self._process.block(seconds=seconds, calls=calls, warmup_calls=warmup_calls)
        return Timing(float(told["wall_seconds"]), tuple(told["arrays"]["latencies"].tolist()))

    def stats(self) -> SideStats:
        """Counters and reasons of a side of ours."""
        return cast("SideStats", self._process.ask("stats"))

    def peak_bytes(self) -> int:
        """The most memory that the process had resident so far."""
        return int(self._process.ask("memory")["peak_bytes"])

    def close(self) -> None:
        """Ends the session and the process."""
        self._process.close()

    def __enter__(self) -> OtherProcess:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes; at once when something went wrong."""
        if kind is None:
            self.close()
        else:
            self._process.kill()
