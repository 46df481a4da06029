"""What a call costs beside its arithmetic on a card: chains of tiny MatMul nodes.

A run has a fixed cost, so the cost of a node is a slope: (time of 576 nodes - time of 64 nodes) / 512, taken
in each interleaved round. Every product is 8x8x8, so that what is seen is the host's side: ONNX Runtime, the
provider, and the library's own call, which is most of it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from benchmarks import common, overhead
from benchmarks.gpu import card as cards
from benchmarks.gpu.card import Card
from benchmarks.gpu.report import Clock, Report, plan
from benchmarks.measure import interleave
from models.graph import save
from models.weights import RandomWeights

SHORT, LONG, SIZE = overhead.SHORT, overhead.LONG, overhead.SIZE
HEADER = ("contender", "us/node min", "us/node median", "64 nodes us")


def contenders(card: Card, model: Path) -> Iterator[tuple[str, Callable[[], ort.InferenceSession]]]:
    """Names, and how to make the session of each."""
    if card.stock:
        yield "stock", lambda: cards.stock_session(card, model, "fp32")
    if card.stock == "CUDAExecutionProvider":
        yield "stock, graph", lambda: cards.stock_session(card, model, "fp32", graph=True)
    if card.ours:
        return
    if card.stock:
        yield "ours, untuned", lambda: cards.our_session(card, model, "fp32", tuning="off")
        yield "ours, tuned", lambda: cards.our_session(card, model, "fp32", tuning="online")
    yield "ours alone, tuned", lambda: cards.our_session(card, model, "fp32", alone=True, tuning="online")


def run(card: Card, args: Any, clock: Clock) -> Report:
    """The part."""
    report = Report("overhead")
    feed = {"x": RandomWeights(2).normal(SIZE, SIZE, scale=1.0)}
    calls: dict[str, Callable[[], object]] = {}
    names: list[str] = []
    kept = []
    with tempfile.TemporaryDirectory(prefix="gpu-overhead-") as folder:
        paths = {nodes: Path(folder) / f"chain-{nodes}.onnx" for nodes in (SHORT, LONG)}
        for nodes, path in paths.items():
            save(overhead.chain(nodes, constant=True), path)
        expected = {nodes: _expected(path, feed) for nodes, path in paths.items()}
        for name, _ in contenders(card, paths[SHORT]):
            if clock.left() < 0:
                report.left_out.append(f"{name}: no time left")
                continue
            try:
                for nodes, path in paths.items():
                    session = dict(contenders(card, path))[name]()
                    call, fetch = cards.bound(card, session, feed, [(SIZE, SIZE)])
                    for _ in range(3):  # a captured graph is replayed from the third run on
                        call()
                    off = common.difference(fetch(), expected[nodes])
                    if off > 1e-3:
                        report.wrong.append(f"{name}, {nodes} nodes: an error of {off:.1e}")
                    calls[f"{name} {nodes}"] = call
                    kept.append(session)
                names.append(name)
            except Exception as error:
                calls = {key: call for key, call in calls.items() if not key.startswith(f"{name} ")}
                report.wrong.append(f"{name}: {error}")
        timed = interleave(calls, plan(args))
    for name in names:
        pairs = zip(timed.seconds[f"{name} {LONG}"], timed.seconds[f"{name} {SHORT}"], strict=True)
        slopes = [(long - short) / (LONG - SHORT) * 1e6 for long, short in pairs]
        quiet = (timed.best(f"{name} {LONG}") - timed.best(f"{name} {SHORT}")) / (LONG - SHORT) * 1e6
        report.results.append(
            {
                "contender": name,
                "us_per_node_min": quiet,
                "us_per_node_median": statistics.median(slopes),
                "chain_64_us": timed.median(f"{name} {SHORT}") * 1e6,
                "slopes_us": slopes,
            }
        )
    rows = [
        (
            r["contender"],
            f"{r['us_per_node_min']:.2f}",
            f"{r['us_per_node_median']:.2f}",
            f"{r['chain_64_us']:.0f}",
        )
        for r in report.results
    ]
    report.say("\n" + common.table(HEADER, rows))
    return report


def _expected(path: Path, feed: common.Feed) -> list[Any]:
    options = cards.session_options()
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, dict(feed))]
