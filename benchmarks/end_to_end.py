"""Whole models against stock ONNX Runtime, for every way to share the graph with it.

    python -m benchmarks.end_to_end [--threads 1,2] [--model NAME] [--quick] [--check] [--json FILE]

Each combination of `claim` (which nodes ours takes) and `fusion` (whether ONNX Runtime may fuse them first)
is one session; all of them, stock, and a second stock session ("noise") are timed in turns. Columns:
milliseconds per run, how many times as fast as stock (median and quartiles over the rounds), nodes
that ours runs, and the largest difference from stock, relative to the largest value of the output.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime as ort

from benchmarks import common
from benchmarks.measure import Ratio, interleave
from models import bert, llama, minilm
from models.graph import external_path, save

CLAIMS, FUSIONS = ("auto", "all", "weights"), ("auto", "off", "keep")
HEADER = ("claim", "fusion", "ms", "stock/ours", "nodes", "shapes tuned", "tuning s", "max difference")
MIN_AUTO = 0.98  # of stock/ours with claim and fusion as they are by default, for --check
TOLERANCE = 1e-3  # relative; fp32 through twelve layers differs by some 1e-5


@dataclass(frozen=True)
class Case:
    """A model, how to build it into a file, and what to feed it."""

    name: str
    build: Callable[[Path], None]
    feed: common.Feed


def _minilm(batch: int) -> Case:
    def build(out: Path) -> None:
        save(minilm.build(), out)

    return Case(f"minilm-{batch}x128", build, minilm.random_feed(batch, 128))


def _bert() -> Case:
    def build(out: Path) -> None:
        save(bert.build(external=external_path(out)), out)

    return Case("bert-1x128", build, minilm.random_feed(1, 128))


def _llama() -> Case:
    past = 511

    def build(out: Path) -> None:
        save(llama.build(sequence=1, past=past, external=external_path(out)), out)

    return Case("llama-decode", build, llama.decode_feed(llama.BLOCK_7B, past=past))


CASES: dict[str, Callable[[], Case]] = {
    "minilm-1x128": lambda: _minilm(1),
    "minilm-8x128": lambda: _minilm(8),
    "bert-1x128": _bert,
    "llama-decode": _llama,
}


def measure(case: Case, threads: int, args: Any, folder: Path) -> list[dict[str, Any]]:
    """One result for each combination, and one of stock against itself."""
    out = folder / f"{case.name}.onnx"
    if not out.exists():
        case.build(out)
    stock, expected = common.bound(common.stock_session(out, threads), case.feed)
    results = [_one(case, threads, args, stock, expected, common.stock_session(out, threads), "noise", "-")]
    for claim, fusion in itertools.product(CLAIMS, FUSIONS):
        options = {"tuning": "online", "max_tuning_ms": args.max_tuning_ms, "claim": claim, "fusion": fusion}
        session = common.our_session(out, threads, **options)
        results.append(_one(case, threads, args, stock, expected, session, claim, fusion))
        del session  # one at a time: a Llama block is 0.8 GB of weights
    return results


def _one(
    case: Case,
    threads: int,
    args: Any,
    stock: Callable[[], object],
    expected: list[Any],
    session: ort.InferenceSession,
    claim: str,
    fusion: str,
) -> dict[str, Any]:
    call, outputs = common.bound(session, case.feed)
    timed = interleave({"stock": stock, "ours": call}, common.plan(args))
    tuned, seconds = common.tuning(session) if claim != "noise" else (0, 0.0)
    return {
        "model": case.name,
        "threads": threads,
        "claim": claim,
        "fusion": fusion,
        "ms": {name: timed.median(name) * 1e3 for name in ("stock", "ours")},
        "ratio": vars(timed.ratio("stock", "ours")),
        "nodes": common.our_nodes(session),
        "tuned": tuned,
        "tuning_seconds": seconds,
        "difference": common.difference(outputs, expected),
        "rounds_ms": {name: [s * 1e3 for s in values] for name, values in timed.seconds.items()},
        "order": timed.order,
    }


def _row(r: dict[str, Any]) -> list[object]:
    fit = [r["claim"], r["fusion"], f"{r['ms']['ours']:.2f}", Ratio(**r["ratio"]), r["nodes"]]
    return [*fit, r["tuned"], f"{r['tuning_seconds']:.1f}", f"{r['difference']:.1e}"]


def missed(results: list[dict[str, Any]]) -> list[str]:
    """The models and thread counts that ours, with the defaults, runs slower than MIN_AUTO times stock."""
    return [
        f"{r['model']}, {r['threads']} thread(s), auto/auto: {r['ratio']['value']:.3f}, "
        f"expected at least {MIN_AUTO}"
        for r in results
        if r["claim"] == r["fusion"] == "auto" and not r["ratio"]["value"] >= MIN_AUTO
    ]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    It is 1 when an output differs by more than TOLERANCE, or misses the bound that --check asks for.
    """
    parser = common.arguments("Whole models against stock ONNX Runtime.")
    parser.add_argument(
        "--model", action="append", choices=list(CASES), help="this one only; may be repeated"
    )
    parser.add_argument("--max-tuning-ms", type=int, default=1000, help="per shape (default: 1000)")
    args = parser.parse_args(arguments)
    print(common.machine_line())
    everything: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="end-to-end-") as folder:
        for name in args.model or CASES:
            case = CASES[name]()
            for threads in args.threads:
                results = measure(case, threads, args, Path(folder))
                stock = results[0]["ms"]["stock"]
                print(f"\n{name}, {threads} thread{'s' if threads > 1 else ''}; stock: {stock:.2f} ms\n")
                print(common.table(HEADER, map(_row, results)), flush=True)
                everything += results
    common.write_json(args.json, "end_to_end", args, everything)
    wrong = [f"{r['model']} {r['claim']}/{r['fusion']}" for r in everything if r["difference"] > TOLERANCE]
    bad = common.complain("WRONG RESULTS", wrong)
    bad |= args.check and common.complain("BOUND MISSED", missed(everything))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
