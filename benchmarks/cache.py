"""What the shape cache and the results file cost: a hit, an eviction, loading and saving.

    python -m benchmarks.cache [--entries 10000] [--quick] [--check] [--json FILE]

A hit is timed with few entries and with many, on the same ten problems and on all of them; an eviction in a
small cache and in a large one that is mostly in use; a document with a tenth of the entries and with all:
contenders in turns, so that a ratio tells what size costs. All of many entries do not fit the first caches of
the processor, which is that difference.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import common, native
from benchmarks.measure import Ratio, Result, interleave

FEW = 10
SMALL_CACHE = 200
#: Milliseconds that loading the document of 10,000 entries may take.
LOAD_MS = 50.0

_ENTRY: dict[str, Any] = {
    "m": 1, "n": 1536, "k": 384, "batch": 1, "lda": 384, "ldb": 0, "ldc": 1536,
    "stride_a": 0, "stride_b": 0, "stride_c": 0, "a_type": "fp32", "b_type": "fp32", "c_type": "fp32",
    "trans_a": False, "trans_b": False, "b_layout": "packed", "b_constant": True, "alpha": "1", "beta": "0",
    "epilogue": "bias_gelu", "precision": "exact", "align_a": 4, "align_b": 4, "align_c": 4, "threads": 2,
    "winner": {
        "library": "native", "kernel": "avx512:6x64/kc384/rows", "opaque_id": -1, "workspace_bytes": 0,
    },
    "library_identity": "0.1.0+avx512", "winner_ms": 1.2345678, "default_ms": 1.5432101,
    "default_kernel": "native:avx512:8x48/kc256/rows", "error": 0.0123456, "tried": 5, "budget_ms": 0,
    "stock_ms": 1.3456789, "cold_b": True, "temperature_c": 61.5, "clock_mhz": 3600.25, "confirmations": 3,
    "uses": 12345, "measured_at": 1750000000,
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What something costs with few (`small`) and with many entries, in `unit`."""

    what: str
    unit: str
    small_entries: int
    large_entries: int
    small: float
    large: float
    best: float  # of `large`
    times: Ratio  # large over small, round by round


def records(count: int) -> list[dict[str, Any]]:
    """Entries of `count` problems."""
    return [{**_ENTRY, "m": i + 1} for i in range(count)]


def compare(
    what: str, sizes: tuple[int, int], figures: tuple[Callable[[], float], Callable[[], float]], rounds: int
) -> Cost:
    """Takes both figures, in ns, in turns, `rounds` times."""
    taken: dict[str, list[float]] = {"small": [], "large": []}
    for turn in range(rounds):
        for name in ("small", "large") if turn % 2 == 0 else ("large", "small"):
            taken[name].append(figures[name == "large"]())
    return _cost(what, "ns", sizes, Result(taken), 1.0)


def _cost(what: str, unit: str, sizes: tuple[int, int], result: Result, scale: float) -> Cost:
    return Cost(
        what,
        unit,
        *sizes,
        result.median("small") * scale,
        result.median("large") * scale,
        result.best("large") * scale,
        result.ratio("large", "small"),
    )


def measure(entries: int, args: Any) -> list[Cost]:
    """One cost for each thing that the cache does."""
    core = native.load()
    plan = common.plan(args)
    few, some = FEW, max(1, entries // 10)

    def find(size: int, used: int) -> Callable[[], float]:
        return lambda: float(core.measure_find(size, used))

    def put(size: int) -> Callable[[], float]:
        return lambda: float(core.measure_put(size))

    costs = [
        compare("a hit, the same ten", (few, entries), (find(few, few), find(entries, few)), plan.rounds),
        compare("a hit, all of them", (few, entries), (find(few, few), find(entries, entries)), plan.rounds),
        compare("an eviction", (SMALL_CACHE, entries), (put(SMALL_CACHE), put(entries)), plan.rounds),
    ]
    texts = {"small": core.format_results(records(some)), "large": core.format_results(records(entries))}

    def load(text: str) -> Callable[[], object]:
        return lambda: core.measure_load(text)

    loaded = interleave({name: load(text) for name, text in texts.items()}, plan)
    costs.append(_cost("loading a document", "ms", (some, entries), loaded, 1e3))
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.json" for name in texts}
        for name, text in texts.items():
            paths[name].write_text(text)
        one = records(1)

        def save(path: Path) -> Callable[[], object]:
            return lambda: core.save_file(path, one)

        saved = interleave({name: save(path) for name, path in paths.items()}, plan)
        costs.append(_cost("saving one entry into a file", "ms", (some, entries), saved, 1e3))
    return costs


def missed(costs: list[Cost]) -> list[str]:
    """Where a stated bound is missed: the quietest round counts."""
    return [
        f"{cost.what}: {cost.best:.1f} ms for {cost.large_entries} entries, bound {LOAD_MS:.0f} ms"
        for cost in costs
        if cost.what == "loading a document"
        and not cost.best <= LOAD_MS * max(1, cost.large_entries / 10_000)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 1 when --check is given and a bound is missed."""
    parser = common.arguments("Cost of the shape cache and of the results file.", threads=(1,))
    parser.add_argument("--entries", type=int, default=10_000, metavar="N", help="default: 10000")
    args = parser.parse_args(arguments)
    print(common.machine_line(), end="\n\n")
    costs = measure(args.entries, args)
    header = ("", "entries", "median", "entries", "median", "best", "times as long")
    rows = [
        (
            cost.what,
            cost.small_entries,
            f"{cost.small:.1f} {cost.unit}",
            cost.large_entries,
            f"{cost.large:.1f} {cost.unit}",
            f"{cost.best:.1f} {cost.unit}",
            str(cost.times),
        )
        for cost in costs
    ]
    print(common.table(header, rows))
    common.write_json(args.json, "cache", args, [vars(cost) | {"times": vars(cost.times)} for cost in costs])
    return 1 if args.check and common.complain("BOUND MISSED", missed(costs)) else 0


if __name__ == "__main__":
    sys.exit(main())
