"""One matrix product at a time: stock ONNX Runtime, our default kernel, and the kernel that tuning chose.

    python -m benchmarks.shapes [--threads 1,2] [--quick] [--only NAME] [--candidates all] [--json FILE]

Each row of shapes.csv becomes a model of one MatMul node. Columns: microseconds per call (median), how many
times as fast as stock (median and quartiles over the rounds), the kernel chosen, and the largest error
against a float64 product, relative to |A| |B|. "noise" is stock against a second stock session: what a ratio
of 1 looks like.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.measure import Ratio, interleave
from models.graph import Graph
from models.progress import track
from models.weights import RandomWeights

SHAPES = Path(__file__).with_name("shapes.csv")
NOISY = 1.03  # how far two equal sessions may lie apart, geometric mean over the shapes
HEADER = (
    "shape",
    "m x n x k",
    "stock us",
    "default us",
    "tuned us",
    "stock/default",
    "stock/tuned",
    "noise",
    "kernel",
    "max error",
)


@dataclass(frozen=True)
class Shape:
    """C[batch, m, n] = A[batch, m, k] x B; a constant B is [k, n], another one [batch, k, n]."""

    name: str
    batch: int
    m: int
    n: int
    k: int
    constant_b: bool

    @property
    def size(self) -> str:
        """For example "96x 128x128x64"."""
        return (f"{self.batch}x " if self.batch > 1 else "") + f"{self.m}x{self.n}x{self.k}"


def read_shapes(path: Path = SHAPES) -> list[Shape]:
    """The rows of a shapes file; lines that begin with # are comments."""
    with path.open(newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return [
            Shape(r["name"], int(r["batch"]), int(r["m"]), int(r["n"]), int(r["k"]), r["b_const"] == "1")
            for r in rows
        ]


def operands(shape: Shape) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Seeded A and B. With batch 1 they have two dimensions."""
    rng, outer = RandomWeights(1), (shape.batch,) if shape.batch > 1 else ()
    a = rng.normal(*outer, shape.m, shape.k, scale=1.0)
    b = rng.normal(*(() if shape.constant_b else outer), shape.k, shape.n, scale=1.0)
    return a, b


def model(a: NDArray[np.float32], b: NDArray[np.float32], constant_b: bool) -> onnx.ModelProto:
    """One MatMul node of fixed sizes; a constant B is an initializer."""
    graph = Graph("matmul")
    left = graph.input("a", a.shape)
    right = graph.weight("b", b) if constant_b else graph.input("b", b.shape)
    graph.output(graph.op("MatMul", left, right, name="c"), [*a.shape[:-1], b.shape[-1]])
    return graph.model()


def error(c: NDArray[Any], a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """The largest |C - AB| / (|A| |B|), with the products in float64, 256 rows at a time; NaN is inf."""
    worst, wide = 0.0, b.astype(np.float64)
    for start in range(0, a.shape[-2], 256):
        rows = slice(start, start + 256)
        part = a[..., rows, :].astype(np.float64)
        off = np.abs(c[..., rows, :] - part @ wide) / (np.abs(part) @ np.abs(wide))
        worst = max(worst, float(np.nan_to_num(off, nan=np.inf).max()))
    return worst


def measure(shape: Shape, threads: int, args: Any) -> dict[str, Any]:
    """All contenders on one shape."""
    a, b = operands(shape)
    built = model(a, b, shape.constant_b)
    feed = {"a": a} if shape.constant_b else {"a": a, "b": b}
    tuning = {"tuning": "online", "max_tuning_ms": args.max_tuning_ms, "candidates": args.candidates}
    sessions = {
        "stock": common.stock_session(built, threads),
        "again": common.stock_session(built, threads),
        "default": common.our_session(built, threads, tuning="off"),
        "tuned": common.our_session(built, threads, **tuning),
    }
    calls: dict[str, Callable[[], object]] = {}
    errors: dict[str, float] = {}
    for name, session in sessions.items():
        calls[name], (c,) = common.bound(session, feed)
        errors[name] = error(c, a, b)
    timed = interleave(calls, common.plan(args))
    return {
        "shape": shape.name,
        "size": shape.size,
        "constant_b": shape.constant_b,
        "threads": threads,
        "us": {name: timed.median(name) * 1e6 for name in calls},
        "ratio": {name: vars(timed.ratio("stock", name)) for name in calls if name != "stock"},
        "error": errors,
        "kernel": ", ".join(common.kernels(sessions["tuned"])) or "stock",
        "rounds_us": {name: [s * 1e6 for s in seconds] for name, seconds in timed.seconds.items()},
        "order": timed.order,
    }


def _row(result: dict[str, Any]) -> list[str]:
    us, ratio = result["us"], {name: Ratio(**r) for name, r in result["ratio"].items()}
    times = [f"{us[name]:.1f}" for name in ("stock", "default", "tuned")]
    ratios = [str(ratio["default"]), str(ratio["tuned"]), str(ratio["again"])]
    worst = max(result["error"]["default"], result["error"]["tuned"])
    return [result["shape"], result["size"], *times, *ratios, result["kernel"], f"{worst:.1e}"]


def _summary(results: list[dict[str, Any]]) -> str:
    lines = []
    for name in ("default", "tuned", "again"):
        ratios = [r["ratio"][name]["value"] for r in results]
        worst = min(results, key=lambda r: float(r["ratio"][name]["value"]))
        label = "noise" if name == "again" else f"stock/{name}"
        lines.append(
            f"{label}: geomean {common.geomean(ratios):.3f} over {len(ratios)} shapes, "
            f"worst {min(ratios):.3f} ({worst['shape']})"
        )
    spread = common.geomean(
        max(r["ratio"]["again"]["value"], 1 / r["ratio"]["again"]["value"]) for r in results
    )
    if spread > NOISY:
        lines.append(
            f"THE MACHINE WAS BUSY: stock differs from itself by {spread:.2f}x; these are not results"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 1 when a result is numerically wrong."""
    parser = common.arguments("One MatMul at a time against stock ONNX Runtime.")
    parser.add_argument("--shapes", type=Path, default=SHAPES, metavar="CSV", help="default: %(default)s")
    parser.add_argument("--only", action="append", metavar="NAME", help="this shape only; may be repeated")
    parser.add_argument("--max-tuning-ms", type=int, default=3000, help="per shape (default: 3000)")
    parser.add_argument("--candidates", default="default", help="default, all or a list of libraries")
    args = parser.parse_args(arguments)
    shapes = {shape.name: shape for shape in read_shapes(args.shapes)}
    if unknown := set(args.only or ()) - set(shapes):
        parser.error(f"no such shape: {', '.join(sorted(unknown))}; there are {', '.join(shapes)}")
    chosen = [shapes[name] for name in args.only or shapes]
    print(common.machine_line())
    everything: list[dict[str, Any]] = []
    for threads in args.threads:
        print(f"\n{threads} thread{'s' if threads > 1 else ''}, fp32, times of one call\n", flush=True)
        results = [measure(shape, threads, args) for shape in track(chosen, f"{threads} thread(s)")]
        print(common.table(HEADER, map(_row, results)))
        print("\n" + _summary(results), flush=True)
        everything += results
    common.write_json(args.json, "shapes", args, everything)
    # k rounding errors of 2^-24 each, however they are ordered; beyond that a product is wrong
    wrong = [r["shape"] for r in everything if max(r["error"].values()) > shapes[r["shape"]].k * 2.0**-24]
    if wrong:
        print(f"WRONG RESULTS: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
