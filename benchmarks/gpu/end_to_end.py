"""Whole models on a card: ONNX Runtime's own provider, with and without a captured graph, and ours before it.

    python -m benchmarks.gpu.run --only end_to_end [--model bert] [--mode fp16] [--batch 1] [--sizes static]

Inputs and outputs lie in the card's memory; a run ends when the card is done. All contenders of a case are
timed in turns, in one process. Error: the largest difference from ONNX Runtime's CPU provider in fp32,
relative to the largest value of each output. Memcpy: nodes that ONNX Runtime put in to copy between host and
card, counted in a profile of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnxruntime as ort

from benchmarks import common
from benchmarks.gpu import card as cards
from benchmarks.gpu.card import Card
from benchmarks.gpu.cases import Case, Models, cases, in_time
from benchmarks.gpu.report import Clock, Report, plan
from benchmarks.measure import Ratio, interleave

STOCK, AGAIN, GRAPH = "stock", "stock again", "stock, graph"
BEST = "stock, graph, no MatMulAddFusion"
OURS: dict[str, dict[str, Any]] = {
    "ours, as it comes": {},
    "ours, untuned": {"tuning": "off", "claim": "gemm"},
    "ours, claim=gemm": {"claim": "gemm"},
    "ours, claim=weights": {"claim": "weights"},
    "ours, fusion=keep": {"claim": "gemm", "fusion": "keep"},
    "ours, claim=all": {"claim": "all", "alone": True},
    "ours, claim=all, graph": {"claim": "all", "alone": True, "enable_graph": 1},
}
ALONE = tuple(name for name, options in OURS.items() if options.get("alone"))
#: No profile of a captured graph: it would record the capture.
GRAPHS = (GRAPH, BEST, "ours, claim=all, graph")
HEADER = ("contender", "ms", "stock / this", "our nodes", "other nodes", "Memcpy", "tuned", "error")
#: Larger errors are wrong ones, unless stock's own is half as large.
TOLERANCE = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 1e-2}


def contenders(
    card: Card, case: Case, model: Path, args: Any
) -> Iterator[tuple[str, Callable[[Path | None], ort.InferenceSession]]]:
    """Names, and how to make the session of each, given where its profile goes."""
    if card.stock:
        yield STOCK, lambda profile: cards.stock_session(card, model, case.mode, profile=profile)
        yield AGAIN, lambda profile: cards.stock_session(card, model, case.mode, profile=profile)
    if card.stock == "CUDAExecutionProvider":
        yield GRAPH, lambda _: cards.stock_session(card, model, case.mode, graph=True)
        without = ["MatMulAddFusion"]
        yield BEST, lambda _: cards.stock_session(card, model, case.mode, graph=True, disabled=without)
    if card.ours:
        return
    tuned = {
        "tuning": "online",
        "cache": model.with_name(f"{case.model}-{case.mode}.json"),
        "max_tuning_ms": args.max_tuning_ms,
    }
    for name, options in OURS.items():

        def make(profile: Path | None, options: dict[str, Any] = tuned | options) -> ort.InferenceSession:
            return cards.our_session(card, model, case.mode, profile=profile, **options)

        yield name, make


def measure(card: Card, case: Case, models: Models, args: Any, report: Report) -> list[dict[str, Any]]:
    """One result for each contender that works; the others go to the report."""
    expected = models.expected(case)
    feed = models.feed(case)
    model = models.path(case)
    calls: dict[str, Callable[[], object]] = {}
    facts: dict[str, dict[str, Any]] = {}
    sessions = []  # they stay alive while they are timed
    for name, make in contenders(card, case, model, args):
        if args.contender and name not in (STOCK, *args.contender):
            continue
        try:
            captured = name in GRAPHS
            session = make(None if captured else models.folder / "profile")
            number = 1 if captured and name in OURS else None
            shapes = [x.shape for x in expected]
            alone = name in ALONE
            call, fetch = cards.bound(card, session, feed, shapes, graph=number, alone=alone)
            nodes = None if captured else cards.profiled(session, call)
            call()
            call()  # a captured graph is replayed from the third run on
            if number is not None:
                cards.demand_replays(session)
            difference = common.difference(fetch(), expected)
        except Exception as error:
            (report.left_out if name in (GRAPH, BEST) else report.wrong).append(f"{case}, {name}: {error}")
            continue
        sessions.append(session)
        calls[name] = call
        facts[name] = {"nodes": nodes, "error": difference, "session": session}
    if STOCK not in calls:
        return []
    timed = interleave(calls, plan(args))
    return [_result(case, name, timed, facts[name]) for name in calls]


def _result(case: Case, name: str, timed: Any, facts: dict[str, Any]) -> dict[str, Any]:
    nodes = facts["nodes"]
    ours = name in OURS
    result: dict[str, Any] = {
        "model": case.model,
        "mode": case.mode,
        "batch": case.batch,
        "sizes": case.sizes,
        "contender": name,
        "ms": timed.median(name) * 1e3,
        "ratio": vars(timed.ratio(STOCK, name)),
        "error": facts["error"],
        "rounds_ms": [s * 1e3 for s in timed.seconds[name]],
        "order": timed.order,
        "tuned": common.tuning(facts["session"]) if ours else None,
        "kernels": dict(common.kernels(facts["session"])) if ours else None,
    }
    if nodes is not None:
        result["nodes"] = {f"{provider} {op}": count for (provider, op), count in sorted(nodes.items())}
        result["memcpy"] = sum(count for (_, op), count in nodes.items() if op.startswith("Memcpy"))
        result["our_nodes"] = sum(
            c for (p, op), c in nodes.items() if p == common.OUR_PROVIDER and not op.startswith("Memcpy")
        )
        result["all_nodes"] = sum(nodes.values())
    return result


def _row(r: dict[str, Any]) -> list[object]:
    nodes: list[object] = ["-", "-", "-"]
    if "nodes" in r:
        nodes = [r["our_nodes"], r["all_nodes"] - r["our_nodes"] - r["memcpy"], r["memcpy"]]
    tuned = "-" if r["tuned"] is None else f"{r['tuned'][0]} in {r['tuned'][1]:.1f} s"
    return [r["contender"], f"{r['ms']:.3f}", Ratio(**r["ratio"]), *nodes, tuned, f"{r['error']:.1e}"]


def judge(results: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the results of one case."""
    stock = next(r for r in results if r["contender"] == STOCK)
    lines = []
    for r in results:
        where = f"{r['model']} {r['mode']} batch {r['batch']} {r['sizes']}, {r['contender']}"
        if r["contender"] in OURS:
            if not r["error"] <= max(TOLERANCE[r["mode"]], 2 * stock["error"]):
                lines.append(f"{where}: error {r['error']:.1e}, stock's {stock['error']:.1e}")
            if r.get("memcpy", 0) > stock["memcpy"]:
                lines.append(f"{where}: {r['memcpy']} Memcpy nodes, stock has {stock['memcpy']}")
            if r.get("our_nodes") == 0:
                lines.append(f"{where}: no node is ours")
    return lines


def add_arguments(parser: Any) -> None:
    """Of this part."""
    parser.add_argument("--contender", nargs="+", help="beside stock, these only; as in the tables")


def run(card: Card, args: Any, clock: Clock) -> Report:
    """The part."""
    report = Report("end_to_end")
    if not card.stock:
        report.left_out.append("everything: this onnxruntime has no provider of its own for the card")
        return report
    if card.ours:
        report.left_out.append(f"our provider: {card.ours}")
    for case, models in in_time(cases(args), args, clock, report):
        results = measure(card, case, models, args, report)
        if not results:
            continue
        report.say(f"\n#### {case}\n\n{common.table(HEADER, map(_row, results))}")
        report.results += results
        report.wrong += judge(results)
    return report
