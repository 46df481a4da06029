"""One product at a time on a card: the library's first choice, the best it lists, and the tuned winner.

For each row of shapes.csv and each type the kernels are elected as a session elects them. Then the three are
measured anew in one interleaved run of fresh rounds, with caches cold and warm, between events on the card:
what made a kernel win does not count. "again" is the first choice once more: what a ratio of 1 looks like.
"list best" is the fastest in a race of its own of what the libraries list, so it may be lucky too.

Needs the module that is built for tests (see benchmarks/native.py).
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks import common, native
from benchmarks.gpu.card import Card
from benchmarks.gpu.report import Clock, Report
from benchmarks.measure import Ratio, Result

KINDS = ("fp32", "tf32", "fp16", "bf16")
HEADER = (
    "shape",
    "m x n x k",
    "first us",
    "first / list best",
    "first / tuned",
    "warm: first / tuned",
    "again",
    "tried",
    "tuned in ms",
    "kernel",
)


def problem_of(core: Any, shape: common.Shape, kind: str) -> Any:
    """The Problem of a shape; a constant B is a weight, and cold when it is used."""
    problem = core.Problem()
    problem.m, problem.n, problem.k, problem.batch = shape.m, shape.n, shape.k, shape.batch
    problem.lda, problem.ldb, problem.ldc = shape.k, shape.n, shape.n
    if shape.batch > 1:
        problem.stride_a, problem.stride_c = shape.m * shape.k, shape.m * shape.n
        problem.stride_b = 0 if shape.constant_b else shape.k * shape.n
    types = {"fp16": core.DataType.float16, "bf16": core.DataType.bfloat16}
    problem.a_type = problem.b_type = problem.c_type = types.get(kind, core.DataType.float32)
    problem.precision = core.Precision.tf32 if kind == "tf32" else core.Precision.exact
    problem.b_constant = int(shape.constant_b)
    problem.align_a = problem.align_b = problem.align_c = 4
    problem.threads = 0
    return problem


def measure(core: Any, card: Card, shape: common.Shape, kind: str, args: Any) -> dict[str, Any]:
    """One shape in one type."""
    rig = core.CardProblem(card.id, problem_of(core, shape, kind))
    rounds = args.rounds or (7 if args.quick else 21)
    first, *others = listed = rig.candidates(all=True)
    best = first
    if others:
        times = rig.time(listed, rounds=max(5, rounds // 2), cold=True, seed=1)
        best = min(zip(listed, times, strict=True), key=lambda pair: statistics.median(pair[1]))[0]
    elected = rig.tune(max_tuning_ms=args.max_tuning_ms, cold=True, all=True)
    winner = elected["winner"]
    runners = {"first": first, "again": first, "list best": best, "tuned": winner}
    cold, warm = (
        Result(dict(zip(runners, _seconds(rig, list(runners.values()), rounds, state), strict=True)))
        for state in (True, False)
    )
    checked = {name: rig.check(runner) for name, runner in runners.items()}
    return {
        "shape": shape.name,
        "size": shape.size,
        "kind": kind,
        "constant_b": shape.constant_b,
        "cold": bool(rig.can_be_cold),
        "us": {name: cold.median(name) * 1e6 for name in runners},
        "warm_us": {name: warm.median(name) * 1e6 for name in runners},
        "ratio": {name: vars(cold.ratio("first", name)) for name in runners},
        "warm_ratio": {name: vars(warm.ratio("first", name)) for name in runners},
        "kernels": {name: runner.full_name for name, runner in runners.items()},
        "tried": int(elected["tried"]),
        "tuning_ms": float(elected["spent_ms"]),
        "why": str(elected["why"]),
        "rejected": dict(elected["rejected"]),
        "listed": len(listed),
        "errors": {name: error for name, (error, _) in checked.items()},
        "wrong": {name: reason for name, (_, reason) in checked.items() if reason},
        "rounds_us": {name: [s * 1e6 for s in seconds] for name, seconds in cold.seconds.items()},
        "warm_rounds_us": {name: [s * 1e6 for s in seconds] for name, seconds in warm.seconds.items()},
    }


def _seconds(rig: Any, runners: list[Any], rounds: int, cold: bool) -> list[list[float]]:
    times = rig.time(runners, rounds=rounds, cold=cold, seed=2)
    return [[ms * 1e-3 for ms in runner] for runner in times]


def _row(r: dict[str, Any]) -> list[object]:
    cold, warm = r["ratio"], r["warm_ratio"]
    return [
        r["shape"],
        r["size"],
        f"{r['us']['first']:.1f}",
        Ratio(**cold["list best"]),
        Ratio(**cold["tuned"]),
        Ratio(**warm["tuned"]),
        Ratio(**cold["again"]),
        r["tried"],
        f"{r['tuning_ms']:.0f}",
        r["kernels"]["tuned"],
    ]


def _summary(results: list[dict[str, Any]]) -> str:
    lines = []
    for label, key, name in (
        ("first / list best, cold", "ratio", "list best"),
        ("first / tuned, cold", "ratio", "tuned"),
        ("first / tuned, warm", "warm_ratio", "tuned"),
        ("first / again, cold", "ratio", "again"),
    ):
        ratios = {r["shape"]: float(r[key][name]["value"]) for r in results}
        worst, best = min(ratios, key=lambda s: ratios[s]), max(ratios, key=lambda s: ratios[s])
        lines.append(
            f"- {label}: geomean {common.geomean(ratios.values()):.3f} over {len(ratios)} shapes, "
            f"worst {ratios[worst]:.3f} ({worst}), best {ratios[best]:.3f} ({best})"
        )
    return "\n".join(lines)


def add_arguments(parser: Any) -> None:
    """Of this part."""
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--shape", nargs="+", metavar="NAME", help="these rows of shapes.csv only")


def run(card: Card, args: Any, clock: Clock) -> Report:
    """The part."""
    report = Report("shapes")
    if card.ours:
        report.left_out.append(f"everything: {card.ours}")
        return report
    try:
        core = native.load()
    except ImportError as error:
        report.left_out.append(f"everything: {error}")
        return report
    shapes = [s for s in common.read_shapes() if not args.shape or s.name in args.shape]
    # Each type gets its share, and what one does not use goes to the next.
    for at, kind in enumerate(args.kind):
        share = Clock(clock.left() / (len(args.kind) - at))
        results = []
        for shape in shapes:
            if share.left() < 0:
                report.left_out.append(f"{kind} {shape.name}: no time left")
                continue
            try:
                results.append(measure(core, card, shape, kind, args))
            except Exception as error:
                report.wrong.append(f"{kind} {shape.name}: {error}")
        if results:
            report.say(f"\n#### {kind}\n\n{common.table(HEADER, map(_row, results))}\n\n{_summary(results)}")
        report.results += results
        report.wrong += [f"{kind} {r['shape']}: {r['wrong']}" for r in results if r["wrong"]]
        report.left_out += [f"{kind} {r['shape']}: not cold" for r in results if not r["cold"]]
    return report
