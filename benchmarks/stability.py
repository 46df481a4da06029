"""Is the same kernel elected again, and when it is another one, does it matter?

    python -m benchmarks.stability [--processes 20] [--threads 1] [--max-mflop 50] [--rounds 101]
                                   [--through kernel|session] [--min-gain X] [--json FILE]
                                   [--check [--min-share 0.95]]

One process after another tunes the shapes of shapes.csv from nothing, with default options, in an order of
its own. Then all kernels that anybody elected for a shape, and the default, run in turns in one process, on
the same operands. The ratio of a (shape, process) is the time of the kernel that it elected over the time of
the best one that was elected by any. The best is chosen in one half of the rounds and the ratios are taken in
the other, and the other way round: a minimum of noisy figures would otherwise make every rival look slow.

"noise" is the default's ratio to itself, run as two contenders.
"""

from __future__ import annotations

import importlib.util
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, shapes
from benchmarks.measure import Interval, bootstrap_ratio, wait_until_idle
from models.progress import track

NEAR = 1.02  # a ratio up to it counts as the best
PERCENTILES = (50, 75, 90, 95, 99, 100)
AGAIN = "the default again"
HEADER = (
    "shape",
    "m x n x k",
    "winners",
    "within 2 %",
    "worst",
    "default/elected",
    "default/elected, worst",
    "noise",
    "elected",
)
Block = Callable[[], float]  # one turn of a contender; returns seconds per call


def small(path: Path, max_mflop: float) -> list[common.Shape]:
    """The shapes of the table that one product of takes at most so many million operations."""
    return [shape for shape in common.read_shapes(path) if shape.flops <= max_mflop * 1e6]


def elect(
    chosen: Sequence[common.Shape], threads: int, min_gain: float | None, seed: int
) -> dict[str, dict[str, Any]]:
    """Tunes each shape in a session of its own; returns the results document of each, by name."""
    import onnxruntime_ep_tunableop as tunableop

    order = list(chosen)
    random.Random(seed).shuffle(order)
    found: dict[str, dict[str, Any]] = {}
    for shape in order:
        a, b = shapes.operands(shape)
        options = {"tuning": "online", "min_gain": min_gain}
        session = common.our_session(shapes.model(a, b, shape.constant_b), threads, **options)
        common.bound(session, {"a": a} if shape.constant_b else {"a": a, "b": b})
        found[shape.name] = tunableop.get_tuning_results(session)
        entry(found[shape.name])
    return found


def entry(document: Mapping[str, Any]) -> dict[str, Any]:
    """The one entry of a document. Raises SystemExit when there is none: then nothing was elected."""
    entries = [one for machine in document["machines"] for one in machine["entries"]]
    exact = [one for one in entries if not one.get("m_high")]  # others serve a range of sizes
    if len(exact) != 1:
        raise SystemExit(f"expected one problem to be tuned, found {len(exact)}")
    return dict(exact[0])


def kernel_of(document: Mapping[str, Any]) -> str:
    """The elected kernel, as tunableop.explain names it."""
    winner = entry(document)["winner"]
    return f"{winner['library']}:{winner['kernel']}"


def with_default(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same document, as if the default kernel had been elected."""
    import onnxruntime_ep_tunableop as tunableop

    one = entry(document)
    library, kernel = one["default_kernel"].split(":", 1)
    one["winner"] = {"library": library, "kernel": kernel, "opaque_id": -1, "workspace_bytes": 0}
    one["library_identity"] = tunableop.devices()[0].libraries[library]
    one["winner_ms"] = one["default_ms"]
    machine = next(machine for machine in document["machines"] if machine["entries"])
    return {**document, "machines": [{**machine, "entries": [one]}]}


def kernel_blocks(
    shape: common.Shape, threads: int, documents: Mapping[str, Mapping[str, Any]]
) -> dict[str, Block]:
    """Each kernel alone, without ONNX Runtime: a turn is three untimed samples and the median of nine."""
    from benchmarks import kernels, native

    core = native.load()
    # A module of its own, which has to be told as the package is.
    if (found := importlib.util.find_spec("scipy_openblas32")) is not None and found.origin is not None:
        core.set_openblas_search_path(str(Path(found.origin).parent / "lib"))
    a, b = (common.aligned(values) for values in shapes.operands(shape))
    c = common.aligned(np.zeros((*a.shape[:-1], shape.n), np.float32))
    problem = kernels.problem_of(shape, threads)
    operand = core.pack_b(b) if shape.constant_b else b
    repeat = max(1, round(50e-6 / (shape.flops / 100e9 / threads)))  # a sample of some 50 us

    def block(document: Mapping[str, Any]) -> Block:
        winner = entry(document)["winner"]
        candidate = core.Candidate(winner["library"], winner["kernel"])
        candidate.opaque_id, candidate.workspace_bytes = winner["opaque_id"], winner["workspace_bytes"]

        def turn() -> float:
            seconds = core.time_kernel(
                problem, candidate, a, operand, c, threads=threads, iterations=12, repeat=repeat
            )
            return float(statistics.median(seconds[3:]))

        return turn

    return {name: block(document) for name, document in documents.items()}


def session_blocks(
    shape: common.Shape, threads: int, documents: Mapping[str, Mapping[str, Any]]
) -> dict[str, Block]:
    """The whole path: one session, told before each turn which kernel it shall have learned.

    One session and not one for each kernel, so that all read the same packed B.
    """
    import onnxruntime_ep_tunableop as tunableop

    a, b = shapes.operands(shape)
    session = common.our_session(shapes.model(a, b, shape.constant_b), threads, tuning="cached")
    call, _ = common.bound(session, {"a": a} if shape.constant_b else {"a": a, "b": b})

    def use(name: str) -> None:
        tunableop.set_tuning_results(session, dict(documents[name]))
        call()

    def block(name: str) -> Block:
        def turn() -> float:
            use(name)
            wait_until_idle()
            samples: list[float] = []
            for _ in range(3):
                call()
            end = time.perf_counter() + 1e-3
            while len(samples) < 9 or time.perf_counter() < end:
                start = time.perf_counter()
                call()
                samples.append(time.perf_counter() - start)
            return statistics.median(samples)

        return turn

    for name, document in documents.items():
        use(name)
        if (runs := list(common.kernels(session))) != [kernel_of(document)]:
            raise SystemExit(f"{shape.name}: told to run {kernel_of(document)}, runs {', '.join(runs)}")
    return {name: block(name) for name in documents}


def race(blocks: Mapping[str, Block], rounds: int, seed: int = 0) -> dict[str, list[float]]:
    """Seconds per call of every contender in every round, in an order drawn anew for each."""
    shuffler = random.Random(seed)
    seconds: dict[str, list[float]] = {name: [] for name in blocks}
    for block in blocks.values():
        block()
    for _ in range(rounds):
        order = list(blocks)
        shuffler.shuffle(order)
        for name in order:
            seconds[name].append(blocks[name]())
    return seconds


def ratios_to_best(seconds: Mapping[str, Sequence[float]], elected: set[str]) -> dict[str, float]:
    """The ratio of each elected kernel to the best of them, best and ratios from different rounds."""
    ratios = dict.fromkeys(sorted(elected), 1.0)
    for choose, judge in ((0, 1), (1, 0)):
        best = min(ratios, key=lambda name: statistics.median(seconds[name][choose::2]))
        for name in ratios:
            pairs = zip(seconds[name][judge::2], seconds[best][judge::2], strict=True)
            ratios[name] *= statistics.median(one / other for one, other in pairs) ** 0.5
    return ratios


def judge(
    shape: common.Shape, threads: int, documents: Sequence[Mapping[str, Any]], args: Any
) -> dict[str, Any]:
    """Races what was elected for one shape; `documents` as the processes gave them."""
    elected = [kernel_of(document) for document in documents]
    default = with_default(documents[0])
    by_name = {kernel_of(default): default, AGAIN: default} | dict(zip(elected, documents, strict=True))
    blocks = {"kernel": kernel_blocks, "session": session_blocks}[args.through](shape, threads, by_name)
    seconds = race(blocks, args.rounds)
    ratios = ratios_to_best(seconds, set(elected))
    base = seconds[kernel_of(default)]
    gains = {
        name: statistics.median(d / e for d, e in zip(base, seconds[name], strict=True)) for name in ratios
    }
    return {
        "shape": shape.name,
        "size": shape.size,
        "threads": threads,
        "default": kernel_of(default),
        "elected": elected,
        "ratio": [ratios[name] for name in elected],
        "gain": [gains[name] for name in elected],
        "noise": vars(bootstrap_ratio(seconds[AGAIN], base, paired=True)),
        "unmeasured": sum(entry(document)["budget_ms"] > 0 for document in documents),
        "cold": sum(bool(entry(document).get("cold_b")) for document in documents),
        "median_us": {name: statistics.median(values) * 1e6 for name, values in seconds.items()},
        "rounds_us": {name: [value * 1e6 for value in values] for name, values in seconds.items()},
    }


def share(results: Sequence[dict[str, Any]]) -> float:
    """For what share of (shape, process) the elected kernel is within NEAR of the best; NaN of none."""
    ratios = [ratio for result in results for ratio in result["ratio"]]
    return sum(ratio <= NEAR for ratio in ratios) / len(ratios) if ratios else float("nan")


def missed(results: Sequence[dict[str, Any]], min_share: float) -> list[str]:
    """Whether the share of one thread count is too small."""
    if (found := share(results)) >= min_share:
        return []
    return [f"within {NEAR - 1:.0%} of the best: {found:.1%}, expected at least {min_share:.0%}"]


def _row(r: dict[str, Any]) -> list[object]:
    counts = Counter(r["elected"])
    winners = ", ".join(
        f"{count}x {name}{' (default)' if name == r['default'] else ''}"
        for name, count in counts.most_common()
    )
    figures = [f"{share([r]):.0%}", f"{max(r['ratio']):.3f}"]
    gains = [f"{statistics.median(r['gain']):.3f}", f"{min(r['gain']):.3f}"]
    return [r["shape"], r["size"], len(counts), *figures, *gains, Interval(**r["noise"]), winners]


def _summary(results: Sequence[dict[str, Any]]) -> str:
    ratios = [ratio for result in results for ratio in result["ratio"]]
    gains = [gain for result in results for gain in result["gain"]]
    percents = ", ".join(f"{p} %: {np.percentile(ratios, p):.3f}" for p in PERCENTILES)
    kept = sum(r["unmeasured"] for r in results)
    lines = [
        f"{len(results)} shapes x {len(results[0]['elected'])} processes: {share(results):.1%} within "
        f"{NEAR - 1:.0%} of the best elected kernel",
        f"elected/best, percentiles: {percents}",
        f"default/elected: geomean {common.geomean(gains):.3f}, worst {min(gains):.3f}",
    ]
    if kept:
        lines.append(f"{kept} elections kept the default for want of time (max_tuning_ms)")
    if cold := sum(r["cold"] for r in results):
        lines.append(f"{cold} elections were held with B out of the caches; here it is in them")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status: 1 when --check is given and the share is too small."""
    parser = common.arguments("How stable elections are over fresh processes.", threads=(1,))
    parser.add_argument("--shapes", type=Path, default=common.SHAPES, metavar="CSV", help="%(default)s")
    parser.add_argument("--max-mflop", type=float, default=50, help="larger shapes are left out (50)")
    parser.add_argument("--processes", type=int, default=20, help="that tune, one after another (20)")
    parser.add_argument(
        "--through", choices=("kernel", "session"), default="kernel", help="what is raced (kernel)"
    )
    parser.add_argument("--min-gain", type=float, help="the option; 0 elects by any lead (as the option's)")
    parser.add_argument("--min-share", type=float, default=0.95, help="for --check (0.95)")
    parser.add_argument("--elect", type=int, metavar="SEED", help="be one of the processes: print results")
    args = parser.parse_args(arguments)
    args.rounds = args.rounds or (11 if args.quick else 101)
    args.shapes = args.shapes.resolve()
    chosen = small(args.shapes, args.max_mflop)
    if not chosen or args.processes < 1 or args.rounds < 2:
        parser.error("nothing to do: it takes a shape, a process and two rounds at least")
    if args.elect is not None:
        print(json.dumps(elect(chosen, args.threads[0], args.min_gain, args.elect)))
        return 0
    print(common.machine_line())
    everything: list[dict[str, Any]] = []
    short: list[str] = []
    for threads in args.threads:
        settings = ["--threads", str(threads), "--max-mflop", str(args.max_mflop)]
        if args.min_gain is not None:
            settings += ["--min-gain", str(args.min_gain)]
        command = ["-m", "benchmarks.stability", *settings, "--shapes", str(args.shapes), "--elect"]
        processes = track(range(args.processes), f"elections, {threads} thread(s)")
        found = [json.loads(common.fresh_process(*command, str(seed))) for seed in processes]
        results = [
            judge(shape, threads, [one[shape.name] for one in found], args)
            for shape in track(chosen, f"races, {threads} thread(s)")
        ]
        print(f"\n{threads} thread{'s' if threads > 1 else ''}, fp32\n")
        print(common.table(HEADER, map(_row, results)))
        print("\n" + _summary(results), flush=True)
        everything += results
        short += [f"{threads} thread(s), {line}" for line in missed(results, args.min_share)]
    common.write_json(args.json, "stability", args, everything)
    return 1 if args.check and common.complain("BOUND MISSED", short) else 0


if __name__ == "__main__":
    sys.exit(main())
