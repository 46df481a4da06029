"""Where the time of a whole model goes: microseconds and number of kernels for each family of work.

    python -m benchmarks.gpu.run --only families [--model bert] [--mode fp16] [--batch 1 16] [--sizes dynamic]

One run of each contender, as torch's profiler sees it: kernels alone, without the gaps between them. The
second table tells ours by kernel.
"""

from __future__ import annotations

from typing import Any

from benchmarks import common
from benchmarks.gpu import card as cards
from benchmarks.gpu import traces
from benchmarks.gpu.card import Card
from benchmarks.gpu.cases import Case, Models, cases, in_time
from benchmarks.gpu.end_to_end import ALONE, BEST, GRAPHS, OURS, STOCK, contenders
from benchmarks.gpu.report import Clock, Report
from benchmarks.gpu.traces import Work

PLAIN, GRAPH = "ours, claim=all", "ours, claim=all, graph"
CONTENDERS = (STOCK, BEST, PLAIN, GRAPH)
#: Slower ones of the second table; the others are in the last row.
SHOWN = 24


def measure(card: Card, case: Case, models: Models, args: Any, report: Report) -> list[dict[str, Any]]:
    """One result for each contender that works; the others go to the report."""
    expected, feed, model = models.expected(case), models.feed(case), models.path(case)
    chosen = (STOCK, *args.contender) if args.contender else CONTENDERS
    results = []
    for name, make in contenders(card, case, model, args):
        if name not in chosen:
            continue
        try:
            session = make(None)
            number = 1 if name in GRAPHS and name in OURS else None
            shapes = [x.shape for x in expected]
            call, _ = cards.bound(card, session, feed, shapes, graph=number, alone=name in ALONE)
            for _ in range(4):  # a captured graph is replayed from the third run on
                call()
            if number is not None:
                cards.demand_replays(session)
            kernels = traces.record(call, 3 if args.quick else 20)
        except Exception as error:
            (report.wrong if name in OURS else report.left_out).append(f"{case}, {name}: {error}")
            continue
        results.append(
            {
                "case": str(case),
                "contender": name,
                "families": {family: vars(work) for family, work in traces.by_family(kernels).items()},
                "kernels": {kernel: vars(work) for kernel, work in kernels.items()},
            }
        )
        if not kernels:
            report.wrong.append(f"{case}, {name}: the profiler saw no kernel")
    return results


def family_table(results: list[dict[str, Any]]) -> str:
    """A row for each family, a column for each contender."""
    rows: list[list[object]] = [
        [family, *(Work(**r["families"][family]) for r in results)] for family in traces.FAMILIES
    ]
    sums = [sum((Work(**w) for w in r["families"].values()), traces.NOTHING) for r in results]
    return common.table(["us (kernels)", *(str(r["contender"]) for r in results)], [*rows, ["all", *sums]])


def kernel_table(result: dict[str, Any]) -> str:
    """A row for each kernel, the slowest first; those of one function in one row."""
    sums: dict[tuple[str, str], Work] = {}
    for name, work in result["kernels"].items():
        key = traces.function_of(name), traces.family_of(name)
        sums[key] = sums.get(key, traces.NOTHING) + Work(**work)
    ordered = sorted(sums.items(), key=lambda one: -one[1].microseconds)
    rows: list[list[object]] = [[*key, work] for key, work in ordered[:SHOWN]]
    if others := [work for _, work in ordered[SHOWN:]]:
        rows.append([f"{len(others)} others", "", sum(others, traces.NOTHING)])
    return common.table([f"{result['contender']}: kernel", "family", "us (kernels)"], rows)


def run(card: Card, args: Any, clock: Clock) -> Report:
    """The part."""
    report = Report("families")
    why = traces.missing()
    if why:
        report.left_out.append(f"everything: {why}")
        return report
    if card.ours:
        report.left_out.append(f"our provider: {card.ours}")
    traces.start()
    for case, models in in_time(cases(args), args, clock, report):
        results = measure(card, case, models, args, report)
        if not results:
            continue
        report.say(f"\n#### {case}\n\n{family_table(results)}")
        for result in results:
            if result["contender"] in OURS:
                report.say(f"\n{kernel_table(result)}")
        report.results += results
    return report
