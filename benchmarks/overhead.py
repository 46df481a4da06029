"""What a node costs beside its arithmetic: chains of tiny MatMul nodes, ours against stock.

    python -m benchmarks.overhead [--threads 1,2] [--quick] [--check] [--json FILE]

A run has a fixed cost, so the cost of a node is a slope: (time of 576 nodes - time of 64 nodes) / 512, taken
in each interleaved round. Minimum and median over the rounds are shown: the minimum is the quiet machine's.
Every product is 8x8x8 (1024 operations: some 50 ns), with B a constant or another input of the model.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from benchmarks import common
from benchmarks.measure import interleave
from models.graph import Graph
from models.weights import RandomWeights

SIZE, SHORT, LONG = 8, 64, 576
CONTENDERS = ("stock", "ours, default kernel", "ours, tuned")


def chain(nodes: int, constant: bool) -> onnx.ModelProto:
    """x -> x B -> x B B ...: `nodes` products of SIZE, B a rotation, so that values keep their size."""
    turn = np.linalg.qr(RandomWeights(0).normal(SIZE, SIZE, scale=1.0))[0].astype(np.float32)
    graph = Graph("chain")
    value = graph.input("x", [SIZE, SIZE])
    # Constants of their own for every node, as in a model; equal ones would be merged by the optimiser.
    shared = None if constant else graph.input("b", [SIZE, SIZE])
    for node in range(nodes):
        right = shared or graph.weight(f"b{node}", np.roll(turn, node, axis=0) * np.float32(1 + node * 1e-6))
        value = graph.op("MatMul", value, right, name="y" if node == nodes - 1 else "")
    graph.output("y", [SIZE, SIZE])
    return graph.model()


def measure(constant: bool, threads: int, args: Any) -> list[dict[str, Any]]:
    """One result for each contender, slopes in ns per node."""
    rng = RandomWeights(2)
    x = rng.normal(SIZE, SIZE, scale=1.0)
    turn = np.linalg.qr(rng.normal(SIZE, SIZE, scale=1.0))[0].astype(np.float32)
    feed = {"x": x} if constant else {"x": x, "b": turn}
    calls: dict[str, Callable[[], object]] = {}
    for nodes in (SHORT, LONG):
        built = chain(nodes, constant)
        sessions = {
            "stock": common.stock_session(built, threads),
            "ours, default kernel": common.our_session(built, threads, tuning="off"),
            "ours, tuned": common.our_session(built, threads, tuning="online"),
        }
        expected = None
        for name in CONTENDERS:
            calls[f"{name} {nodes}"], (y,) = common.bound(sessions[name], feed)
            expected = y if expected is None else expected
            if (off := common.difference([y], [expected])) > 1e-3:
                raise SystemExit(f"{name}, {nodes} nodes: differs from stock by {off:.1e}")
    timed = interleave(calls, common.plan(args))
    results = []
    for name in CONTENDERS:
        pairs = zip(timed.seconds[f"{name} {LONG}"], timed.seconds[f"{name} {SHORT}"], strict=True)
        slopes = [(long - short) / (LONG - SHORT) * 1e9 for long, short in pairs]
        quiet = (timed.best(f"{name} {LONG}") - timed.best(f"{name} {SHORT}")) / (LONG - SHORT) * 1e9
        results.append(
            {
                "contender": name,
                "constant_b": constant,
                "threads": threads,
                "ns_per_node_min": quiet,
                "ns_per_node_median": statistics.median(slopes),
                "chain_64_us": timed.median(f"{name} {SHORT}") * 1e6,
                "slopes_ns": slopes,
            }
        )
    return results


def missed(results: list[dict[str, Any]]) -> list[str]:
    """Where a node of ours costs more than one of stock's, on the quiet machine."""
    stock = {
        (r["threads"], r["constant_b"]): r["ns_per_node_min"] for r in results if r["contender"] == "stock"
    }
    return [
        f"{r['contender']}, {r['threads']} thread(s), B {'constant' if r['constant_b'] else 'input'}: "
        f"{r['ns_per_node_min']:.0f} ns, stock {stock[r['threads'], r['constant_b']]:.0f} ns"
        for r in results
        if not r["ns_per_node_min"] <= stock[r["threads"], r["constant_b"]]
    ]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 1 when --check is given and ours costs more."""
    args = common.arguments("Cost of a node against stock ONNX Runtime.").parse_args(arguments)
    print(common.machine_line(), end="\n\n")
    results: list[dict[str, Any]] = []
    for threads in args.threads:
        for constant in (True, False):
            results += measure(constant, threads, args)
    header = ("contender", "B", "threads", "ns/node min", "ns/node median", "64 nodes us")
    rows = [
        (
            r["contender"],
            "constant" if r["constant_b"] else "input",
            r["threads"],
            f"{r['ns_per_node_min']:.0f}",
            f"{r['ns_per_node_median']:.0f}",
            f"{r['chain_64_us']:.1f}",
        )
        for r in results
    ]
    print(common.table(header, rows))
    common.write_json(args.json, "overhead", args, results)
    return 1 if args.check and common.complain("BOUND MISSED", missed(results)) else 0


if __name__ == "__main__":
    sys.exit(main())
