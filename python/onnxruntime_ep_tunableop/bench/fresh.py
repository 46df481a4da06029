"""What a user waits for once: fresh processes that make a session and answer their first request."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .other_process import OtherProcess
from .spec import Feeds, SideSpec
from .worker_process import Limits

#: What goes on, how many steps are done, and of how many.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Probe:
    """Medians over fresh processes. Peak memory is that after the second request."""

    import_seconds: float  #: NumPy and onnxruntime, and our package for a side of ours
    creation_seconds: float
    first_request_seconds: float  #: for a side of ours with what it measures then
    second_request_seconds: float
    peak_bytes: int


def probe(
    spec: SideSpec,
    feeds: Feeds,
    python: Path | None = None,
    repeats: int = 1,
    *,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Probe:
    """Makes the side `repeats` times, in a fresh process of `python` (None: this one) each.

    Of a side of ours with a `cache` each process gets a copy of that file, if it exists, and otherwise one
    that is not there: none finds what another one measured, and the file itself is left as it is.

    Raises ValueError without a repeat, and what OtherProcess raises.
    """
    if repeats < 1:
        raise ValueError(f"{repeats} fresh processes: nothing to measure")
    found = []
    for done in range(repeats):
        with tempfile.TemporaryDirectory(prefix="tunableop-side-") as folder:
            own = _with_own_cache(spec, Path(folder))
            found.append(_once(own, feeds, python or Path(sys.executable), limits))
        if progress is not None:
            progress(f"fresh process: {spec.name}", done + 1, repeats)
    return Probe(
        import_seconds=statistics.median(one.import_seconds for one in found),
        creation_seconds=statistics.median(one.creation_seconds for one in found),
        first_request_seconds=statistics.median(one.first_request_seconds for one in found),
        second_request_seconds=statistics.median(one.second_request_seconds for one in found),
        peak_bytes=int(statistics.median(one.peak_bytes for one in found)),
    )


def _with_own_cache(spec: SideSpec, folder: Path) -> SideSpec:
    cache = spec.options.get("cache")
    if cache is None:
        return spec
    own = folder / "cache.json"
    if Path(cache).is_file():
        shutil.copyfile(cache, own)
    return spec.with_options(cache=own)


def _once(spec: SideSpec, feeds: Feeds, python: Path, limits: Limits | None) -> Probe:
    with OtherProcess(python, spec, feeds, limits) as side:
        first, second = side.timed_request(), side.timed_request()
        made = side.facts()
        return Probe(made["import_seconds"], made["creation_seconds"], first, second, side.peak_bytes())
