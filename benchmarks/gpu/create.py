"""What a session takes to be made on a card, and its first run: fresh processes, in turns.

    python -m benchmarks.gpu.run --only create [--model bert] [--mode fp16] [--sizes dynamic] [--samples 7]

Each sample is a process of its own, and the card's first use in it. Columns: milliseconds to import the
packages, to make the session (our library is loaded within it), of the first run and of the second, from and
to NumPy arrays; medians. Ours runs alone, without and with graphs, with its compiled kernels kept from an
earlier process and, once at the end, with nothing kept ("cold"). The ratios are of medians to ONNX Runtime's
own provider, with their 95 % bootstrap interval: above 1 is slower.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.gpu import card as cards
from benchmarks.gpu.card import Card
from benchmarks.gpu.cases import KINDS, Case, Models, cases, in_time
from benchmarks.gpu.report import Clock, Report
from benchmarks.measure import Interval, bootstrap_ratio

STEPS = ("import", "create", "first", "second")
STOCK, OURS, GRAPH, COLD = "stock", "ours", "ours, graph", "ours, cold"
HEADER = ("contender", *(f"{step} ms" for step in STEPS), "create / stock", "create + first / stock")

#: What a process needs to find the libraries that this one found.
PATHS = ("TUNABLEOP_CUDA_PATH", "TUNABLEOP_ROCM_PATH")

CHILD = """
import json, sys, time
times = [time.perf_counter()]
import numpy as np
import onnxruntime as ort
job = json.loads(sys.argv[1])
if job["ours"]:
    import onnxruntime_ep_tunableop as tunableop
    make = tunableop.InferenceSession
else:
    make = ort.InferenceSession
feed = dict(np.load(job["feed"]))
options = ort.SessionOptions()
options.log_severity_level = 3
times.append(time.perf_counter())
session = make(job["model"], options, providers=[tuple(p) for p in job["providers"]], **job["options"])
times.append(time.perf_counter())
for _ in range(2):
    session.run(None, feed)
    times.append(time.perf_counter())
print(json.dumps({"ms": [(b - a) * 1e3 for a, b in zip(times, times[1:])], "on": session.get_providers()}))
"""


@dataclass
class Timed:
    """Milliseconds of each step, by contender, one figure for each process."""

    steps: dict[str, list[list[float]]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)

    def add(self, name: str, figures: Sequence[float]) -> None:
        """One process."""
        self.steps.setdefault(name, []).append(list(figures))
        self.order.append(name)

    def of(self, name: str, *steps: str) -> list[float]:
        """The sum of these steps in each process."""
        places = [STEPS.index(step) for step in steps]
        return [sum(figures[i] for i in places) for figures in self.steps[name]]

    def ratio(self, name: str, *steps: str) -> Interval:
        """Of the medians to those of ONNX Runtime's provider."""
        return bootstrap_ratio(self.of(name, *steps), self.of(STOCK, *steps))


def sample(card: Card, name: str, model: Path, mode: str, feed: Path, kept: Path) -> list[float]:
    """One process. Raises SystemExit when it fails, or when the provider is not in its session."""
    ours = name != STOCK
    options: dict[str, Any] = {}
    providers: list[Any] = [("CPUExecutionProvider", {})]
    if ours:
        options = {"device": card.id, "claim": "all", "precision": "tf32" if mode == "tf32" else "exact"}
        options |= {"tuning": "cached"} | ({"enable_graph": True} if name == GRAPH else {})
    else:
        providers.insert(0, cards.stock_provider(card, mode))
    job = {"ours": ours, "model": str(model), "feed": str(feed), "providers": providers, "options": options}
    sees = {key: value for key, value in os.environ.items() if key in PATHS}
    sees["TUNABLEOP_KERNEL_CACHE"] = "off" if name == COLD else str(kept)
    printed = common.fresh_process("-c", CHILD, json.dumps(job), timeout=300, sees=sees)
    result = json.loads(printed.splitlines()[-1])
    wanted = common.OUR_PROVIDER if ours else card.stock
    if wanted not in result["on"]:
        raise SystemExit(f"{name}: {wanted} is not in the session, {', '.join(result['on'])} are")
    return [float(ms) for ms in result["ms"]]


def add_arguments(parser: Any) -> None:
    """Of this part."""
    parser.add_argument("--samples", type=int, default=7, help="processes of each contender (default: 7)")


def _row(timed: Timed, name: str) -> list[object]:
    medians = [f"{statistics.median(timed.of(name, step)):.0f}" for step in STEPS]
    if name == STOCK or STOCK not in timed.steps:
        return [name, *medians, "-", "-"]
    return [name, *medians, timed.ratio(name, "create"), timed.ratio(name, "create", "first")]


def measure(card: Card, case: Case, models: Models, args: Any, clock: Clock, report: Report) -> Timed:
    """All processes of one model."""
    timed = Timed()
    model = models.path(case)
    turns = 2 if args.quick else args.samples
    with tempfile.TemporaryDirectory(prefix="gpu-create-") as made:
        feed, kept = Path(made) / "feed.npz", Path(made) / "kernels"
        np.savez(feed, **dict[str, Any](models.feed(case)))
        names = [*([STOCK] if card.stock else []), *([] if card.ours else [OURS, GRAPH])]
        for name in names:  # reads the files, keeps the kernels
            sample(card, name, model, case.mode, feed, kept)
        chance = random.Random(turns)
        for turn in range(turns):
            if clock.left() < 0:
                report.left_out.append(f"{case}: turns {turn + 1} to {turns}: no time left")
                break
            for name in chance.sample(names, len(names)):
                timed.add(name, sample(card, name, model, case.mode, feed, kept))
        if not card.ours and clock.left() > 0:
            timed.add(COLD, sample(card, COLD, model, case.mode, feed, kept))
    return timed


def run(card: Card, args: Any, clock: Clock) -> Report:
    """The part: each model at its smallest batch."""
    report = Report("create")
    if not card.stock:
        report.left_out.append("ONNX Runtime's own provider: this build has none for the card")
    if card.ours:
        report.left_out.append(f"our provider: {card.ours}")
    smallest = (c for c in cases(args) if c.batch == min(args.batch or KINDS[c.model].batches))
    for case, models in in_time(smallest, args, clock, report):
        timed = measure(card, case, models, args, clock, report)
        report.say(f"\n#### {case}\n")
        report.say(common.table(HEADER, (_row(timed, name) for name in timed.steps)))
        report.results.append({"case": str(case), **vars(timed)})
    return report
