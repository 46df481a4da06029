"""What a first request costs in each tuning mode, and whether serving settles at the same speed.

    python -m benchmarks.first_request [--modes off,background,online,cached] [--samples 20] [--threads 1]
                                       [--model NAME] [--quick] [--check] [--json FILE]

First requests: each sample is a fresh process that makes one session and runs it twice; the modes take turns,
in an order drawn anew for each turn. Columns: milliseconds to make the session (the library is loaded within
it), of the first and the second run, and to release the session; medians, and ratios of medians to "off" with
their 95 % bootstrap interval. Above 1: slower than off.

Steady state: one session of each mode in one process, after "background" has measured everything that it met;
milliseconds of a run, in turns, and the ratio to "online". "cached" has what an "online" session learned.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from benchmarks import common
from benchmarks.measure import Interval, bootstrap_ratio, interleave
from benchmarks.small_models import perceptron
from models import minilm
from models.graph import save
from models.progress import track

MODES = ("off", "background", "online", "cached")
STEPS = ("create", "first", "second", "release")
MAX_FIRST = 1.1  # of background/off in the first run, for --check
STEADY = (0.97, 1.03)  # of background/online once all is measured, for --check
TOLERANCE = 1e-3  # relative to the largest output, as in end_to_end

# A user's process: it imports what it needs to serve, and nothing is pinned.
CHILD = """
import json, sys, time
import numpy as np
import onnxruntime as ort
import onnxruntime_ep_tunableop as tunableop
job = json.loads(sys.argv[1])
options = ort.SessionOptions()
options.intra_op_num_threads = job["threads"]
options.log_severity_level = 3
feed = dict(np.load(job["feed"]))
expected = np.load(job["expected"])
times = [time.perf_counter()]
session = tunableop.InferenceSession(job["model"], options, **job["options"])
times.append(time.perf_counter())
first = session.run(None, feed)
times.append(time.perf_counter())
second = session.run(None, feed)
times.append(time.perf_counter())
tuned = tunableop.stats(session).tuned
if job["save"]:
    tunableop.save_cache(session, job["save"])
before = time.perf_counter()
del session
released = time.perf_counter() - before
off = max(float(np.abs(out - expected[str(i)]).max() / np.abs(expected[str(i)]).max())
          for outputs in (first, second) for i, out in enumerate(outputs))
spans = [(b - a) * 1e3 for a, b in zip(times, times[1:])]
print(json.dumps({"ms": dict(zip(("create", "first", "second", "release"), [*spans, released * 1e3])),
                  "tuned": tuned, "difference": off if off == off else 1e30}))
"""


@dataclass(frozen=True)
class Case:
    """A model, how to build it into a file, and what to feed it."""

    name: str
    build: Callable[[Path], None]
    feed: common.Feed


def _minilm() -> Case:
    return Case("minilm-1x128", lambda out: save(minilm.build(), out), dict(minilm.random_feed(1, 128)))


def _mlp() -> Case:
    net = perceptron((64, 256, 256, 10))
    return Case("mlp-32", lambda out: save(net.model(), out), net.feed(32))


CASES: dict[str, Callable[[], Case]] = {"minilm-1x128": _minilm, "mlp-32": _mlp}


def prepare(case: Case, threads: int, folder: Path) -> None:
    """Writes what the processes read: the model, the feed, stock's answer, a cache that was tuned online."""
    case.build(folder / "model.onnx")
    np.savez(folder / "feed.npz", **dict[str, Any](case.feed))
    stock = ort.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    answers = stock.run(None, dict(case.feed))
    np.savez(folder / "expected.npz", **{str(i): answer for i, answer in enumerate(answers)})
    sample("online", threads, folder, cache=folder / "cache.json")


def sample(mode: str, threads: int, folder: Path, cache: Path | None = None) -> dict[str, Any]:
    """One fresh process; saves what it learned to `cache`. Raises SystemExit when it fails."""
    options: dict[str, Any] = {"tuning": mode}
    if mode == "cached":
        options["cache"] = str(folder / "cache.json")
    files = ("model.onnx", "feed.npz", "expected.npz")
    job: dict[str, Any] = {name.split(".")[0]: str(folder / name) for name in files}
    job |= {"threads": threads, "options": options, "save": str(cache or "")}
    try:
        return dict(json.loads(common.fresh_process("-c", CHILD, json.dumps(job), timeout=300)))
    except SystemExit as failure:
        raise SystemExit(f"tuning={mode}: {failure}") from None


def first_requests(
    modes: Sequence[str], threads: int, samples: int, folder: Path, what: str
) -> dict[str, list[dict[str, Any]]]:
    """`samples` fresh processes of each mode, in turns."""
    shuffler = random.Random(0)
    found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in modes}
    for mode in modes:
        sample(mode, threads, folder)  # files come from the disk once
    for _ in track(range(samples), what):
        order = list(modes)
        shuffler.shuffle(order)
        for mode in order:
            found[mode].append(sample(mode, threads, folder))
    return found


def settle(session: ort.InferenceSession, run: Callable[[], object], limit: float) -> float:
    """Runs until a run has met nothing that is still to be measured; returns the seconds it took.

    Raises SystemExit when that is not reached within `limit` seconds.
    """
    import onnxruntime_ep_tunableop as tunableop

    start = time.perf_counter()
    quiet = 0
    while quiet < 2:
        run()
        before = tunableop.stats(session)
        while common.pending(session) > 0:
            if time.perf_counter() - start > limit:
                raise SystemExit(f"still {common.pending(session)} problems to measure after {limit:.0f} s")
            time.sleep(0.01)
        after = tunableop.stats(session)
        quiet = quiet + 1 if after.tuned == before.tuned and after.deferred == 0 else 0
        if time.perf_counter() - start > limit:
            raise SystemExit(f"{after.deferred} problems were not worth measuring yet after {limit:.0f} s")
    if tunableop.stats(session).tuned == 0:
        raise SystemExit("nothing was measured in the background")
    return time.perf_counter() - start


def steady(case: Case, modes: Sequence[str], threads: int, args: Any, folder: Path) -> dict[str, Any]:
    """One session of each mode, in turns, when all of them have learned what they will."""
    import onnxruntime_ep_tunableop as tunableop

    calls: dict[str, Callable[[], object]] = {}
    sessions: dict[str, ort.InferenceSession] = {}
    settled = 0.0
    for mode in modes:
        options: dict[str, Any] = {"tuning": mode}
        if mode == "cached":
            options["cache"] = str(folder / "cache.json")
        settings = common.session_options(threads)  # pins this thread
        pinned = os.sched_getaffinity(0)
        if mode == "background":  # whose own threads would be pinned with it, all to one processor
            os.sched_setaffinity(0, common.PROCESSORS)
        sessions[mode] = tunableop.InferenceSession(folder / "model.onnx", settings, **options)
        calls[mode], _ = common.bound(sessions[mode], case.feed)
        if mode == "background":
            settled = settle(sessions[mode], calls[mode], args.deadline)
        os.sched_setaffinity(0, pinned)
    timed = interleave(calls, common.plan(args))
    chosen = {
        mode: {shape.problem: shape.kernel for shape in tunableop.explain(session).shapes}
        for mode, session in sessions.items()
    }
    against = "online" if "online" in modes else modes[0]
    return {
        "model": case.name,
        "threads": threads,
        "against": against,
        "settled_seconds": settled,
        "ms": {mode: timed.median(mode) * 1e3 for mode in modes},
        "ratio": {
            mode: vars(bootstrap_ratio(timed.seconds[mode], timed.seconds[against], paired=True))
            for mode in modes
        },
        "other_kernels": {
            mode: sum(kernel != chosen[against].get(problem) for problem, kernel in kernels.items())
            for mode, kernels in chosen.items()
        },
        "shapes": len(chosen[against]),
        "rounds_ms": {mode: [s * 1e3 for s in seconds] for mode, seconds in timed.seconds.items()},
        "order": timed.order,
    }


def summarise(case: str, threads: int, found: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One result for each mode: medians in ms, and ratios to off where off was measured."""
    results = []
    for mode, samples in found.items():
        times = {step: [one["ms"][step] for one in samples] for step in STEPS}
        base = {step: [one["ms"][step] for one in found.get("off", ())] for step in STEPS}
        ratios = {step: vars(bootstrap_ratio(times[step], base[step])) for step in STEPS if base[step]}
        results.append(
            {
                "model": case,
                "threads": threads,
                "mode": mode,
                "median_ms": {step: statistics.median(times[step]) for step in STEPS},
                "ratio": ratios,
                "tuned": max(one["tuned"] for one in samples),
                "difference": max(one["difference"] for one in samples),
                "samples_ms": times,
            }
        )
    return results


def missed(first: Sequence[dict[str, Any]], settled: Sequence[dict[str, Any]]) -> list[str]:
    """The bounds on background that are missed, or that nothing was measured for."""
    lines: list[str] = []
    requests = [r for r in first if r["mode"] == "background" and r["ratio"]]
    for r in requests:
        ratio = Interval(**r["ratio"]["first"])
        if not ratio.value <= MAX_FIRST:
            where = f"{r['model']}, {r['threads']} thread(s)"
            lines.append(f"{where}: first request background/off {ratio}, expected at most {MAX_FIRST}")
    served = [s for s in settled if s["against"] == "online" and "background" in s["ratio"]]
    for s in served:
        ratio = Interval(**s["ratio"]["background"])
        if not (STEADY[0] <= ratio.value <= STEADY[1] or 1.0 in ratio):
            where = f"{s['model']}, {s['threads']} thread(s)"
            lines.append(f"{where}: steady background/online {ratio}, expected {STEADY[0]} to {STEADY[1]}")
    if not requests or not served:
        lines.append("background was not measured beside off and online")
    return lines


def _row(r: dict[str, Any]) -> list[object]:
    cells: list[object] = [r["mode"]]
    for step in STEPS:
        cells.append(f"{r['median_ms'][step]:.2f}")
        if step in ("create", "first", "second"):
            cells.append(Interval(**r["ratio"][step]) if r["ratio"] else "-")
    return [*cells, r["tuned"], f"{r['difference']:.1e}"]


def _report(first: Sequence[dict[str, Any]], served: dict[str, Any]) -> str:
    header = ("mode", "create ms", "/off", "first ms", "/off", "second ms", "/off", "release ms")
    lines = [common.table((*header, "tuned", "max difference"), map(_row, first)), "", "Steady state"]
    if "background" in served["ms"]:
        lines[-1] += f", after {served['settled_seconds']:.1f} s of requests and measuring in the background"
    rows = [
        (mode, f"{ms:.3f}", Interval(**served["ratio"][mode]), served["other_kernels"][mode])
        for mode, ms in served["ms"].items()
    ]
    against = served["against"]
    columns = ("mode", "ms", f"/{against}", f"kernels unlike {against}'s, of {served['shapes']}")
    return "\n".join([*lines, "", common.table(columns, rows)])


def _modes(text: str) -> tuple[str, ...]:
    modes = tuple(text.split(","))
    if unknown := set(modes) - set(MODES):
        raise ValueError(f"{', '.join(sorted(unknown))}: the modes are {', '.join(MODES)}")
    return modes


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    It is 1 when an output differs by more than TOLERANCE, or misses the bounds that --check asks for.
    """
    parser = common.arguments("First requests and steady state of the tuning modes.", threads=(1,))
    parser.add_argument("--modes", default=",".join(MODES), metavar="MODE[,MODE]", help="%(default)s")
    parser.add_argument(
        "--model", action="append", choices=list(CASES), help="this one only; may be repeated"
    )
    parser.add_argument("--samples", type=int, help="processes of each mode (20, quick 5)")
    parser.add_argument("--deadline", type=float, default=120, help="seconds for background to settle (120)")
    args = parser.parse_args(arguments)
    try:
        modes = _modes(args.modes)
    except ValueError as error:
        parser.error(f"--modes: {error}")
    args.samples = args.samples or (5 if args.quick else 20)
    print(common.machine_line())
    first: list[dict[str, Any]] = []
    served: list[dict[str, Any]] = []
    for name in args.model or CASES:
        case = CASES[name]()
        for threads in args.threads:
            with tempfile.TemporaryDirectory(prefix="first-request-") as folder:
                where = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
                prepare(case, threads, Path(folder))
                found = first_requests(modes, threads, args.samples, Path(folder), where)
                first += (results := summarise(name, threads, found))
                served.append(steady(case, modes, threads, args, Path(folder)))
                print(f"\n{where}, {args.samples} processes of each mode\n\n{_report(results, served[-1])}")
    common.write_json(args.json, "first_request", args, {"first": first, "steady": served})
    wrong = [f"{r['model']} tuning={r['mode']}" for r in first if not r["difference"] <= TOLERANCE]
    bad = common.complain("WRONG RESULTS", wrong)
    bad |= args.check and common.complain("BOUND MISSED", missed(first, served))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
