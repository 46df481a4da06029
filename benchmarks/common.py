"""What the benchmarks share: the machine's line, sessions of both providers, tables, files, arguments."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime_ep_tunableop.bench.machine import cpu_model as cpu_model
from onnxruntime_ep_tunableop.bench.machine import facts
from onnxruntime_ep_tunableop.bench.shapes import PACKAGED
from onnxruntime_ep_tunableop.bench.shapes import Shape as Shape
from onnxruntime_ep_tunableop.bench.shapes import read_shapes as read_shapes

from benchmarks.measure import QUICK, Plan

Feed = Mapping[str, NDArray[Any]]
OUR_PROVIDER = "TunableOpExecutionProvider"
ALIGNMENT = 64  # bytes; what a tensor inside a real model has


#: Processors of this process before the calling thread was pinned.
PROCESSORS = sorted(os.sched_getaffinity(0))

ROOT = Path(__file__).resolve().parent.parent
SHAPES = PACKAGED


def machine() -> dict[str, str]:
    """What a figure depends on: processor, cores this process may use, versions, load when it began."""
    # This thread may be pinned by now.
    return facts() | {"cores": str(len(PROCESSORS))}


def machine_line() -> str:
    """The same in one line."""
    return ", ".join(f"{key} {value}" for key, value in machine().items())


def session_options(threads: int) -> ort.SessionOptions:
    """What every session here is made with: default optimisations, assignments recorded.

    Several sessions live in one process, and the threads of an idle one must not take a processor from the
    one that is timed: contenders take turns when the process is idle (`measure`), and the calling thread and
    the pool's threads are pinned to a processor each, as ONNX Runtime pins a pool of default size. Without
    these, stock differed from itself by a factor of two at two threads; with them, by 2 %. Pools spin
    between runs, as users have it.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    if 1 < threads <= len(PROCESSORS):
        others = ";".join(str(processor + 1) for processor in PROCESSORS[1:threads])  # counted from 1
        options.add_session_config_entry("session.intra_op_thread_affinities", others)
    if threads <= len(PROCESSORS):
        os.sched_setaffinity(0, {PROCESSORS[0]})
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def stock_session(model: onnx.ModelProto | Path, threads: int) -> ort.InferenceSession:
    """The stock CPU provider with its default optimisations."""
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, session_options(threads), providers=["CPUExecutionProvider"])


def our_session(model: onnx.ModelProto | Path, threads: int, **options: Any) -> ort.InferenceSession:
    """This project's provider, and the stock CPU provider for what it does not claim."""
    import onnxruntime_ep_tunableop as tunableop

    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return tunableop.InferenceSession(source, sess_options=session_options(threads), **options)


def kernels(session: ort.InferenceSession) -> Counter[str]:
    """How many shapes `session` runs with which kernel, as tunableop.explain names it."""
    import onnxruntime_ep_tunableop as tunableop

    return Counter(str(shape.kernel) for shape in tunableop.explain(session).shapes)


def assignment(session: ort.InferenceSession) -> Counter[tuple[str, str]]:
    """How many nodes run where: (provider, operator) -> count. The session needs session_options()."""
    return Counter(
        (str(part.ep_name), str(node.op_type))
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    )


def our_nodes(session: ort.InferenceSession) -> int:
    """How many nodes of the graph our provider runs."""
    return sum(count for (provider, _), count in assignment(session).items() if provider == OUR_PROVIDER)


def tuning(session: ort.InferenceSession) -> tuple[int, float]:
    """How many shapes `session` tuned, and the seconds it took."""
    import onnxruntime_ep_tunableop as tunableop

    numbers = tunableop.stats(session)
    return int(numbers.tuned), float(numbers.tuning_seconds)


def pending(session: ort.InferenceSession) -> int:
    """How many problems of `session` wait to be measured in the background."""
    import onnxruntime_ep_tunableop as tunableop

    # A build that cannot measure in the background refuses the mode, and has no such counter.
    return int(vars(tunableop.stats(session)).get("pending", 0))


def aligned(values: NDArray[Any]) -> NDArray[Any]:
    """A copy that starts at a multiple of ALIGNMENT."""
    room = np.empty(values.nbytes + ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def bound(session: ort.InferenceSession, feed: Feed) -> tuple[Callable[[], object], list[NDArray[Any]]]:
    """A call that runs `session` on preallocated inputs and outputs, and the arrays of its outputs.

    Runs the session once before, so that with tuning="online" the tuning is over when this returns.
    """
    feed = {name: aligned(values) for name, values in feed.items()}
    first = session.run(None, feed)
    binding = session.io_binding()
    for name, values in feed.items():
        binding.bind_cpu_input(name, values)
    outputs = [aligned(values) for values in first]
    for meta, values in zip(session.get_outputs(), outputs, strict=True):
        binding.bind_output(meta.name, "cpu", 0, values.dtype, list(values.shape), values.ctypes.data)

    # The binding knows addresses only: the call keeps the arrays alive.
    def call(keep: object = (feed, outputs)) -> None:
        session.run_with_iobinding(binding)

    call()
    return call, outputs


def difference(got: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> float:
    """The largest difference, relative to the largest magnitude in its tensor; NaN differs by inf."""
    worst = 0.0
    for a, b in zip(got, expected, strict=True):
        scale = float(np.abs(b).max(initial=0.0)) or 1.0
        value = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0.0)) / scale
        worst = max(worst, math.inf if math.isnan(value) else value)
    return worst


def geomean(values: Iterable[float]) -> float:
    """Geometric mean; NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table, columns padded: the first to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        " | ".join(
            cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    lines = [f"| {line} |" for line in lines]
    rule = "|" + "|".join(("-" * (w + 1) + ":") if i else "-" * (w + 2) for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def arguments(description: str, threads: tuple[int, ...] = (1, 2)) -> argparse.ArgumentParser:
    """The arguments that every benchmark takes; `threads` are what it measures with unless told."""
    parser = argparse.ArgumentParser(description=description)
    shown = ",".join(map(str, threads))
    parser.add_argument(
        "--threads", type=_threads, default=threads, metavar="N[,N]", help=f"default: {shown}"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a look, not a result")
    parser.add_argument("--rounds", type=int, help="rounds of each comparison (default: 15, quick 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a stated bound is missed")
    return parser


def plan(args: argparse.Namespace) -> Plan:
    """The measuring plan that the arguments ask for."""
    base = QUICK if args.quick else Plan()
    return Plan(args.rounds or base.rounds, base.block, base.warm_up, base.seed)


def fresh_process(*arguments: str, timeout: float = 600, sees: Mapping[str, str] | None = None) -> str:
    """What a new Python process, on all processors, prints; `arguments` as on Python's own command line.

    The process starts at the root of the repository and sees no TUNABLEOP_* variable but those in `sees`:
    options are what is passed. Raises SystemExit with the last line of its error output when it fails or
    takes too long.
    """
    os.sched_setaffinity(0, PROCESSORS)  # a child inherits what this thread was pinned to
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TUNABLEOP_")}
    kept |= sees or {}
    command = [sys.executable, *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=kept, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"a process did not end within {timeout:.0f} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SystemExit(f"a process failed with {done.returncode}: {lines[-1]}")
    return done.stdout


def complain(what: str, found: Sequence[str]) -> bool:
    """Prints what is wrong, if anything is; returns whether it is."""
    if found:
        print(f"{what}: {'; '.join(found)}", file=sys.stderr)
    return bool(found)


def write_json(path: Path | None, benchmark: str, args: argparse.Namespace, results: object) -> None:
    """Writes the results with the machine and the arguments; nothing without a path."""
    if path is None:
        return
    # Names, not paths: results are compared between machines.
    settings = {
        key: value.name if isinstance(value, Path) else value
        for key, value in vars(args).items()
        if key != "json"
    }
    document = {"benchmark": benchmark, "machine": machine(), "arguments": settings, "results": results}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"wrote {path}", file=sys.stderr)


def _threads(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected thread counts such as 1,2")
    return counts
