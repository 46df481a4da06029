"""Asks everything, in the order in which one thing rests on another.

What cannot work because of something that was found before is not asked: one cause is one problem.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
from collections.abc import Callable, Iterator
from typing import Any

from . import environment, library, runtime, survival
from .asked import Asked
from .check import Report, asks
from .vendors import Vendor

Progress = Callable[[str, int, int], None]

#: As they are reported.
PARTS = (
    *("library", "runtime", "environment", "machine", "clocks"),
    *("options", "cache", "model", "selftest", "doctor"),
)
#: What needs a library and an onnxruntime that work.
_REST = ("machine", "clocks", "options", "cache", "model", "selftest")


def quiet(what: str, done: int, total: int) -> None:
    """Nobody watches."""


def examine(asked: Asked, progress: Progress = quiet) -> Report:
    """Everything that was asked for. Measures nothing but a short probe, and writes nothing.

    Libraries that end the process stay hidden from it (TUNABLEOP_CUDA_PATH, TUNABLEOP_ROCM_PATH).
    """
    report = Report()
    with _log(report):
        _examine(asked, report, progress)
    report.checks.sort(key=lambda check: PARTS.index(check.name.partition(".")[0]))
    return report


@contextlib.contextmanager
def _log(report: Report) -> Iterator[None]:
    """What the package warns of meanwhile goes into the report: every check says it in its own words."""
    lines: list[str] = report.facts.setdefault("log", [])
    logger = logging.getLogger("tunableop")
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)


def _examine(asked: Asked, report: Report, progress: Progress) -> None:
    progress("library and onnxruntime", 0, 2)
    environ = dict(os.environ)  # before anything is kept away from this process
    deadly: list[Vendor] = []
    usable = _library_and_runtime(asked, report, deadly)
    report.add(environment.names(environ))
    report.add(environment.paths(environ))
    if usable:
        from . import sessions  # and with it all that needs onnxruntime and the native module

        report.add(_fenced(lambda: sessions.examine(asked, report, progress, deadly)))
    else:
        report.add(environment.second_tuner())
        skip(asked, report, "the library or onnxruntime is of no use", *_REST)


@asks("doctor.itself", "did the doctor get through?")
def _fenced(examine_sessions: Callable[[], None]) -> None:
    """Every check has a fence of its own; this one is for what stands between them."""
    examine_sessions()


def skip(asked: Asked, report: Report, why: str, *parts: str) -> None:
    """These parts, as far as they were asked for, rest on what is broken."""
    for part in parts:
        if getattr(asked, part, True):
            report.not_asked[part] = why


def _library_and_runtime(asked: Asked, report: Report, deadly: list[Vendor]) -> bool:
    """Whether everything else can be asked at all."""
    report.facts["versions"] = _versions()
    found = report.add(library.found())
    if found:
        found = report.add(library.versions())
    right = report.add(runtime.onnxruntime())
    right &= report.add(runtime.numpy())
    available = _available() if right else None
    report.facts["providers"] = available or []
    report.add(runtime.distributions(available))
    if not (found and right):
        return False
    if not report.add(survival.harmless(asked.device, deadly)) and not deadly:
        return False  # and this process would end, too
    return report.add(runtime.registration())


def _available() -> list[str]:
    import onnxruntime as ort

    return [str(name) for name in ort.get_available_providers()]


def _versions() -> dict[str, Any]:
    """Of what can be told without onnxruntime."""
    return {
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "library": str(library.PACKAGE / library.LIBRARY_FILE),
    }
