"""`tunableop bench`: is it faster, where, and can the number be trusted?"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import _devices, _options
from .._library import register
from ..bench import gemm, inputs, machine, model, report
from ..bench.builtin import BUILTIN
from ..bench.gemm_report import csv_rows, gemm_text
from ..bench.results import SCHEMA
from ..bench.sides import Against, parse_against, stock_providers
from .command import Command, UsageError
from .progress import steps
from .tune import parse_dims, parse_shape

_BUILTINS = ", ".join(BUILTIN)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    what.add_argument(
        "model", metavar="MODEL", nargs="?", help=f"an .onnx file, or one to be built: {_BUILTINS}"
    )
    what.add_argument(
        "--gemm",
        metavar="SHAPES.csv|M,N,K[,BATCH]",
        nargs="?",
        const="",
        help="single products instead of a model, a row for each kernel; without a value 26 shapes of "
        "transformers and others",
    )
    what.add_argument(
        "--shape", metavar="INPUT:1x128[,INPUT:...]", action="append", help="dimensions of the inputs"
    )
    what.add_argument("--dim", metavar="NAME=SIZE", action="append", help="size of a symbolic dimension")
    what.add_argument("--inputs", metavar="FILE.npz", type=Path, help="the inputs themselves, by name")
    what.add_argument(
        "--dtype", metavar="TYPE", default=None, help="of a built-in model or of --gemm: fp32 or fp16 (bf16)"
    )
    what.add_argument("--seed", metavar="N", type=int, default=0, help="of inputs and order (default: 0)")

    against = parser.add_argument_group("against what")
    against.add_argument(
        "--against",
        metavar="PROVIDER|PYTHON:PROVIDER",
        action="append",
        help="a stock provider, of this onnxruntime or of the one of another Python; may be given again; "
        "answers and speed are related to the first (default: those that this onnxruntime has)",
    )
    against.add_argument(
        "--rtol", metavar="R", type=float, help="answers may differ by this share (1e-3; fp16 2e-2)"
    )
    against.add_argument(
        "--atol", metavar="A", type=float, help="and by this much (the same of the largest magnitude)"
    )
    against.add_argument("--allow-fallback", action="store_true", help="do not fail when we refuse a product")

    how = parser.add_argument_group("how long")
    how.add_argument("--warmup", metavar="N", type=int, default=3, help="untimed calls before each block (3)")
    length = how.add_mutually_exclusive_group()
    length.add_argument("--iterations", metavar="N", type=int, help="timed calls for each side")
    length.add_argument(
        "--duration", metavar="S", type=float, help="seconds for each side (default: 10, with --gemm 0.9)"
    )
    how.add_argument("--concurrency", metavar="N", type=int, default=1, help="calls at the same time (1)")
    how.add_argument(
        "--threads", metavar="N", type=int, help="intra-op threads of every session (one a core)"
    )
    how.add_argument(
        "--no-fresh", action="store_true", help="do not measure first requests in fresh processes"
    )
    how.add_argument(
        "--profile", action=argparse.BooleanOptionalAction, default=True, help="time per provider"
    )

    ours = parser.add_argument_group("our sessions")
    ours.add_argument("--tuning", metavar="MODE", help="online (default), background, cached or off")
    ours.add_argument("--cache", metavar="FILE", help="tuning results: read, and saved to")
    ours.add_argument("--device", metavar="WHICH", help="auto, cpu, cuda, cuda:1, hip ... (default: auto)")
    ours.add_argument("--precision", metavar="WHICH", help="exact, or on a card tf32 or bf16")
    ours.add_argument("--aggressive", action="store_true", help="and once more with every kernel tried")
    ours.add_argument(
        "--option", metavar="KEY=VALUE", action="append", help="any other option of InferenceSession"
    )

    out = parser.add_argument_group("where to")
    for name, what_ in (
        ("json", "everything, with every sample"),
        ("csv", "a line for each side"),
        ("md", "the report"),
    ):
        out.add_argument(f"--{name}", metavar="FILE", type=Path, help=f"write {what_} to FILE")
    out.add_argument("--quiet", action="store_true", help="no progress")


def _run(given: argparse.Namespace) -> int:
    if (given.model is None) == (given.gemm is None):
        raise UsageError(f"expected MODEL (a file, {_BUILTINS}) or --gemm, and not both")
    _check_files(given)
    for name in ("warmup", "seed"):
        if getattr(given, name) < 0:
            raise UsageError(f"--{name}: expected 0 or more, found {getattr(given, name)}")
    for name in ("iterations", "duration", "concurrency", "threads", "rtol", "atol"):
        value = getattr(given, name)
        least = 0 if name in ("rtol", "atol") else 1e-9
        if value is not None and not least <= value < math.inf:
            raise UsageError(f"--{name}: expected a number above 0, found {value}")
    return _run_gemm(given) if given.model is None else _run_model(given)


def _check_files(given: argparse.Namespace) -> None:
    """Before minutes of measuring: every report has a place of its own, which is none of what is read."""
    taken = {Path(name).resolve() for name in (given.model, given.gemm, given.inputs, given.cache) if name}
    for path in (given.json, given.csv, given.md):
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise UsageError(f"expected a folder for '{path}', found none")
        if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise UsageError(f"'{path}' may not be written")
        # Reports may well go to one terminal or pipe.
        if path.resolve() in taken:
            raise UsageError(f"expected a file of its own for each report, found '{path}' twice")
        if path.is_file() or not path.exists():
            taken.add(path.resolve())


def _our_options(given: argparse.Namespace) -> dict[str, str]:
    chosen: dict[str, Any] = {}
    for text in given.option or []:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--option: expected KEY=VALUE, found '{text}'")
        chosen[key] = value
    for key in ("tuning", "cache", "device", "precision"):
        if getattr(given, key) is not None:
            chosen[key] = getattr(given, key)
    if chosen.get("tuning") == "cached" and "cache" not in chosen:
        raise UsageError("--tuning cached runs what a file of tuning results knows: name it with --cache")
    return _options.check(chosen)


def _against(given: argparse.Namespace) -> list[Against]:
    if given.against:
        return [parse_against(text) for text in given.against]
    there = stock_providers()
    register()
    if not _devices.choose(given.device or "auto").is_card:
        there = [_devices.CPU_PROVIDER]
    elif len(there) > 1:  # the CPU would take its minutes, and nobody with a card asks for it
        there = [name for name in there if name != _devices.CPU_PROVIDER]
    return [parse_against(name) for name in there]


def _run_model(given: argparse.Namespace) -> int:
    options = _our_options(given)
    with tempfile.TemporaryDirectory(prefix="tunableop-bench-") as folder, steps(given.quiet) as progress:
        progress("making the model and its inputs", 0, 1)
        subject = inputs.find(
            given.model,
            Path(folder),
            shape=parse_shape(",".join(given.shape)) if given.shape else None,
            dims=parse_dims(given.dim or []),
            arrays=given.inputs,
            dtype=given.dtype or "fp32",
            seed=given.seed,
        )
        request = model.Request(
            subject=subject,
            against=_against(given),
            options=options,
            aggressive=given.aggressive,
            threads=given.threads,
            concurrency=given.concurrency,
            warmup=given.warmup,
            duration=10.0 if given.duration is None else given.duration,
            iterations=given.iterations,
            seed=given.seed,
            rtol=given.rtol,
            atol=given.atol,
            allow_fallback=given.allow_fallback,
            fresh=not given.no_fresh,
            profile=given.profile,
        )
        found = model.run(request, Path(folder), progress)
    print(report.text(found))
    _write(given, found.document, lambda: report.csv_text(found), lambda: report.text(found, markdown=True))
    return found.code


def _run_gemm(given: argparse.Namespace) -> int:
    for name in ("shape", "dim", "inputs", "against", "aggressive", "cache", "iterations"):
        if getattr(given, name):
            raise UsageError(f"--{name} is for a MODEL, not for --gemm")
    options = _our_options(given)
    budget = float(options.pop("max_tuning_ms", "2000"))
    if set(options) - {"device"}:
        raise UsageError(f"--gemm measures every kernel itself: {', '.join(options)} would mean nothing")
    shapes = gemm.read_shapes(given.gemm or None)
    rounds = 9
    length = {} if given.duration is None else {"seconds": given.duration / rounds}
    with steps(given.quiet) as progress:
        rows = gemm.run(
            shapes,
            device=given.device or "auto",
            threads=given.threads or machine.cores(),
            types=(given.dtype,) if given.dtype else None,
            rounds=rounds,
            max_tuning_ms=budget,
            seed=given.seed,
            **length,
            progress=progress,
        )
    facts = machine.facts()
    print(gemm_text(rows, facts))
    document = {
        "tool": "tunableop bench --gemm",
        "schema": SCHEMA,
        "machine": facts,
        "rows": [row.document() for row in rows],
    }
    _write(given, lambda: document, lambda: csv_rows(rows), lambda: gemm_text(rows, facts, markdown=True))
    return 0


def _write(
    given: argparse.Namespace,
    document: Callable[[], dict[str, Any]],
    as_csv: Callable[[], str],
    as_markdown: Callable[[], str],
) -> None:
    if given.json is not None:
        text = json.dumps(_finite(document()), indent=1, allow_nan=False)
        given.json.write_text(text + "\n", encoding="utf-8")
    if given.csv is not None:
        given.csv.write_text(as_csv(), encoding="utf-8")
    if given.md is not None:
        given.md.write_text(as_markdown() + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """The same with null in place of infinity and NaN, for which JSON has no words."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


COMMAND = Command(
    name="bench",
    help="compare with the stock providers, in turns, on a model or on single products",
    description="Runs a model on our provider and on the stock ones in one run, in turns, in an order drawn "
    "anew for each round, compares the answers and reports speed, spread, first requests, memory, and where "
    "the nodes ran. Exit code: 0 fine, 1 it broke, 2 wrong usage, 3 the answers differ, 4 our provider ran "
    "nothing, 5 products fell back without having been asked to.",
    add_arguments=_add_arguments,
    run=_run,
)
