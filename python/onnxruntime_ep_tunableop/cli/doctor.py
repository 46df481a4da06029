"""`tunableop doctor`: why is it not taking effect?"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import onnxruntime as ort

from ..doctor import Asked, examine
from ..doctor.examine import Progress
from ..doctor.text import text
from .command import Command, UsageError
from .tune import parse_dims, parse_shape

_FAILED = 1


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="FILE", help="explain this .onnx file, node by node")
    parser.add_argument(
        "--shape",
        metavar="INPUT:1x128[,INPUT:...]",
        action="append",
        help="with --model: dimensions of its inputs; may be given again for further runs",
    )
    parser.add_argument(
        "--dim", metavar="NAME=SIZE", action="append", help="with --model: value of a symbolic dimension"
    )
    parser.add_argument("--cache", metavar="FILE", help="look at this file of tuning results")
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        help="an option that sessions are to be made with (tuning=online ...); may be given again",
    )
    parser.add_argument("--device", metavar="WHICH", default="auto", help="auto, cpu, cuda, cuda:1, hip ...")
    parser.add_argument("--selftest", action="store_true", help="run every kernel, too, in about a minute")
    parser.add_argument("--quick", action="store_true", help="with --selftest: in some ten seconds")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def _asked(given: argparse.Namespace) -> Asked:
    if given.model is not None and not Path(given.model).is_file():
        raise UsageError(f"--model: expected a file, found none at '{given.model}'")
    for name in ("shape", "dim"):
        if getattr(given, name) and given.model is None:
            raise UsageError(f"--{name} is about a model: give --model, too")
    if given.quick and not given.selftest:
        raise UsageError("--quick is about the self-test: give --selftest, too")
    options: dict[str, str] = {}
    for entry in given.option or []:
        key, equals, value = entry.partition("=")
        if not equals or not key:
            raise UsageError(f"--option: expected KEY=VALUE, found '{entry}'")
        options[key] = value
    return Asked(
        model=None if given.model is None else Path(given.model),
        shapes=[parse_shape(entry) for entry in given.shape or []],
        dims=parse_dims(given.dim or []),
        cache=None if given.cache is None else Path(given.cache),
        options=options,
        device=given.device,
        selftest=given.selftest,
        quick=given.quick,
    )


def _run(given: argparse.Namespace) -> int:
    asked = _asked(given)
    with _shown() as progress, _quiet_onnxruntime():
        report = examine(asked, progress)
    print(json.dumps(report.document(), indent=1) if given.json else text(report))
    return _FAILED if report.verdict == "problem" else 0


@contextlib.contextmanager
def _quiet_onnxruntime() -> Iterator[None]:
    """What goes wrong is in the report. An onnxruntime that is too old, or half gone, may lack the call."""
    set_severity = getattr(ort, "set_default_logger_severity", lambda _level: None)
    set_severity(4)
    try:
        yield
    finally:
        set_severity(2)  # onnxruntime's default; it cannot be asked for


@contextlib.contextmanager
def _shown() -> Iterator[Progress]:
    """One line on a terminal, overwritten; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    try:
        yield lambda what, done, total: print(
            f"\r\033[K[{done + 1}/{total}] {what}", end="", file=sys.stderr, flush=True
        )
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


COMMAND = Command(
    name="doctor",
    help="say what works here, what does not, and what to do about it",
    description="Asks what may keep the provider from taking effect: library, onnxruntime, environment, "
    "devices, clocks; with --model why each node is claimed or not, with --cache whether the file is used. "
    "Each question has a verdict, its evidence, and a remedy. Exit code 1: there is a problem.",
    add_arguments=_add_arguments,
    run=_run,
)
