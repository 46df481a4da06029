"""`tunableop tune`: measure a model before it is deployed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..tuning import TuneSummary, tune
from .command import Command, UsageError
from .progress import shown

_DIMENSIONS = re.compile(r"(\d+(x\d+)*)?")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the .onnx file")
    parser.add_argument(
        "--cache", metavar="FILE", required=True, help="where the results go; what is there stays and counts"
    )
    parser.add_argument(
        "--shape",
        metavar="INPUT:1x128[,INPUT:...]",
        action="append",
        help="one run of the model with inputs of these dimensions; may be given again for further runs",
    )
    parser.add_argument(
        "--shapes", metavar="FILE.json", help='runs as JSON: [{"input": [1, 128]}, {"input": [8, 128]}]'
    )
    parser.add_argument(
        "--dim",
        metavar="NAME=SIZE",
        action="append",
        help="value of a symbolic dimension; may be given again for others",
    )
    parser.add_argument(
        "--isolate",
        action="store_true",
        help="measure in a worker process, which is started anew when a kernel crashes or hangs",
    )
    parser.add_argument(
        "--hang-seconds",
        metavar="S",
        type=float,
        default=30.0,
        help="with --isolate: a call this long is a hang (default: 30)",
    )
    parser.add_argument(
        "--max-tuning-ms", metavar="MS", type=float, help="for each problem (default: 100, on a card 300)"
    )
    parser.add_argument("--candidates", metavar="WHICH", help="kernels: default, all, or names of libraries")
    parser.add_argument("--device", metavar="WHICH", help="auto, cpu, cuda, cuda:1, hip ... (default: auto)")
    parser.add_argument("--precision", metavar="WHICH", help="of the sessions to serve: exact, tf32 or bf16")
    parser.add_argument("--threads", metavar="N", type=int, help="intra-op threads of the sessions to serve")
    for name, values in (("claim", "auto, all, gemm or weights"), ("fusion", "auto, off or keep")):
        parser.add_argument(f"--{name}", metavar="WHICH", help=f"as the sessions to serve have it: {values}")
    parser.add_argument("--buckets", metavar="WHICH", help="the same: off or pow2")
    parser.add_argument(
        "--min-gain", metavar="SHARE", type=float, help="of the default's time to save (default: 0.03)"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def parse_shape(text: str) -> dict[str, list[int]]:
    """ "ids:1x128,mask:1x128" as {input: dimensions}. Names may hold colons, but no commas."""
    shapes: dict[str, list[int]] = {}
    for part in text.split(","):
        name, colon, dimensions = part.rpartition(":")
        if not colon or not name or not _DIMENSIONS.fullmatch(dimensions):
            raise UsageError(f"--shape: expected INPUT:1x128, found '{part}'")
        if name in shapes:
            raise UsageError(
                f"--shape: '{name}' stands twice in '{text}'; give --shape again for another run"
            )
        shapes[name] = [int(size) for size in dimensions.split("x") if size]
    return shapes


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """["batch=8"] as {"batch": 8}."""
    dims: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal():
            raise UsageError(f"--dim: expected NAME=SIZE, found '{text}'")
        dims[name] = int(size)
    return dims


def read_shapes(path: str) -> list[dict[str, list[int]]]:
    """A file of --shapes."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--shapes: cannot read '{path}': {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--shapes: '{path}' is not JSON: {error}") from error
    entries = content if isinstance(content, list) else [content]
    for entry in entries:
        if not isinstance(entry, dict) or not all(isinstance(value, list) for value in entry.values()):
            raise UsageError(
                f"--shapes: expected [{{\"input\": [1, 128]}}, ...] in '{path}', found {json.dumps(entry)}"
            )
    return entries


def _run(given: argparse.Namespace) -> int:
    if not Path(given.model).is_file():
        raise UsageError(f"MODEL: expected a file, found none at '{given.model}'")
    shapes = [parse_shape(text) for text in given.shape or []]
    if given.shapes is not None:
        shapes += read_shapes(given.shapes)
    options: dict[str, Any] = {
        key: getattr(given, key)
        for key in (
            *("max_tuning_ms", "candidates", "device", "precision"),
            *("threads", "claim", "fusion", "buckets", "min_gain"),
        )
    }
    with shown(given.quiet) as progress:
        summary = tune(
            given.model,
            shapes=shapes or None,
            dims=parse_dims(given.dim or []),
            cache=given.cache,
            isolate=given.isolate,
            hang_seconds=given.hang_seconds,
            progress=progress,
            **options,
        )
    if given.json:
        print(json.dumps(dataclasses.asdict(summary)))
    elif not given.quiet:
        print(_text(summary, given.cache))
    return 0


def _text(summary: TuneSummary, cache: str) -> str:
    def count(number: int, what: str) -> str:
        return f"{number} {what}{'' if number == 1 else 's'}"

    text = f"{count(summary.tuned, 'problem')} measured in {summary.seconds:.1f} s, saved to {cache}"
    if summary.denied:
        text += f"; {count(summary.denied, 'kernel')} denied"
    if summary.restarts:
        text += f"; {count(summary.restarts, 'worker')} died"
    return text


COMMAND = Command(
    name="tune",
    help="measure every matrix product of a model, and save the results",
    description="Measures every MatMul and Gemm of a model on this machine and saves the results to a file, "
    "which sessions then load with cache=FILE. Without shapes: those that the file has seen in use, else "
    "those that the model states, with symbolic dimensions taken as 1.",
    add_arguments=_add_arguments,
    run=_run,
)
