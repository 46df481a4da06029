"""One matrix product at a time: stock ONNX Runtime, our default kernel, and the kernel that tuning chose.

    python -m benchmarks.shapes [--threads 1,2] [--quick] [--only NAME] [--candidates all] [--json FILE]
                                [--check [--min-geomean 1.10] [--min-worst 0.92]]

Each row of shapes.csv becomes a model of one MatMul node. Columns: microseconds per call (median), how many
times as fast as stock, and as our default kernel, the others are (median and quartiles over the rounds), the
kernel chosen, and the largest error against a float64 product, relative to |A| |B|. "noise" is stock against
a second stock session: what a ratio of 1 looks like.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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

NOISY = 1.03  # how far two equal sessions may lie apart, geometric mean over the shapes
HEADER = (
    "shape",
    "m x n x k",
    "stock us",
    "default us",
    "tuned us",
    "stock/default",
    "stock/tuned",
    "default/tuned",
    "noise",
    "kernel",
    "max error",
)


def operands(shape: common.Shape) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
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


def measure(shape: common.Shape, threads: int, args: Any) -> dict[str, Any]:
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
        "gain": vars(timed.ratio("default", "tuned")),
        "error": errors,
        "kernel": ", ".join(common.kernels(sessions["tuned"])) or "stock",
        "rounds_us": {name: [s * 1e6 for s in seconds] for name, seconds in timed.seconds.items()},
        "order": timed.order,
    }


def _row(result: dict[str, Any]) -> list[str]:
    us, ratio = result["us"], {name: Ratio(**r) for name, r in result["ratio"].items()}
    times = [f"{us[name]:.1f}" for name in ("stock", "default", "tuned")]
    ratios = [str(ratio["default"]), str(ratio["tuned"]), str(Ratio(**result["gain"])), str(ratio["again"])]
    worst = max(result["error"]["default"], result["error"]["tuned"])
    return [result["shape"], result["size"], *times, *ratios, result["kernel"], f"{worst:.1e}"]


def _over_shapes(ratios: dict[str, float]) -> str:
    worst = min(ratios, key=lambda shape: ratios[shape])
    return (
        f"geomean {common.geomean(ratios.values()):.3f} over {len(ratios)} shapes, "
        f"worst {ratios[worst]:.3f} ({worst})"
    )


def missed(results: list[dict[str, Any]], min_geomean: float, min_worst: float) -> list[str]:
    """The bounds on stock/tuned that the results of one thread count miss."""
    ratios = {r["shape"]: float(r["ratio"]["tuned"]["value"]) for r in results}
    lines = []
    if not (mean := common.geomean(ratios.values())) >= min_geomean:
        lines.append(f"stock/tuned: geomean {mean:.3f}, expected at least {min_geomean}")
    lines += [
        f"stock/tuned: {shape} {ratio:.3f}, expected at least {min_worst}"
        for shape, ratio in ratios.items()
        if not ratio >= min_worst
    ]
    return lines


def _summary(results: list[dict[str, Any]]) -> str:
    lines = []
    for label, name in (("stock/default", "default"), ("stock/tuned", "tuned"), ("noise", "again")):
        lines.append(f"{label}: {_over_shapes({r['shape']: r['ratio'][name]['value'] for r in results})}")
    lines.insert(2, f"default/tuned: {_over_shapes({r['shape']: r['gain']['value'] for r in results})}")
    spread = common.geomean(
        max(r["ratio"]["again"]["value"], 1 / r["ratio"]["again"]["value"]) for r in results
    )
    if spread > NOISY:
        lines.append(
            f"THE MACHINE WAS BUSY: stock differs from itself by {spread:.2f}x; these are not results"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 1 for a wrong result or a bound missed."""
    parser = common.arguments("One MatMul at a time against stock ONNX Runtime.")
    parser.add_argument(
        "--shapes", type=Path, default=common.SHAPES, metavar="CSV", help="default: %(default)s"
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="this shape only; may be repeated")
    parser.add_argument("--max-tuning-ms", type=int, default=3000, help="per shape (default: 3000)")
    parser.add_argument("--candidates", default="default", choices=("default", "all"), help="as the option")
    parser.add_argument("--min-geomean", type=float, default=1.10, help="of stock/tuned, for --check (1.10)")
    parser.add_argument("--min-worst", type=float, default=0.92, help="of stock/tuned, for --check (0.92)")
    args = parser.parse_args(arguments)
    shapes = {shape.name: shape for shape in common.read_shapes(args.shapes)}
    if unknown := set(args.only or ()) - set(shapes):
        parser.error(f"no such shape: {', '.join(sorted(unknown))}; there are {', '.join(shapes)}")
    chosen = [shapes[name] for name in args.only or shapes]
    print(common.machine_line())
    everything: list[dict[str, Any]] = []
    short: list[str] = []
    for threads in args.threads:
        print(f"\n{threads} thread{'s' if threads > 1 else ''}, fp32, times of one call\n", flush=True)
        results = [measure(shape, threads, args) for shape in track(chosen, f"{threads} thread(s)")]
        print(common.table(HEADER, map(_row, results)))
        print("\n" + _summary(results), flush=True)
        everything += results
        short += [
            f"{threads} thread(s), {line}" for line in missed(results, args.min_geomean, args.min_worst)
        ]
    common.write_json(args.json, "shapes", args, everything)
    # k rounding errors of 2^-24 each, however they are ordered; beyond that a product is wrong
    wrong = [r["shape"] for r in everything if max(r["error"].values()) > shapes[r["shape"]].k * 2.0**-24]
    bad = common.complain("WRONG RESULTS", wrong)
    bad |= args.check and common.complain("BOUND MISSED", short)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
