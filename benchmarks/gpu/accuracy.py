"""How far answers of whole models are from the CPU provider's in fp32, and whether anything is copied.

    python -m benchmarks.gpu.run --only accuracy [--minilm FILE] [--model bert t5] [--sizes dynamic]

Every model in small sizes, in fp32, TF32 and fp16, three at a time, one of them padded: our provider alone
(`claim="all"`), with a graph (the answer of a replay) and without, beside ONNX Runtime's own provider where
there is one. Error: as in `end_to_end`. `--minilm`: all-MiniLM-L6-v2 with its real weights, too, in a file of

    python -m models build minilm --out FILE [--dtype fp16]

which a machine without a network cannot make. In a file in fp16 the weights are rounded ones, and fp32
calculates with these.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from benchmarks import common
from benchmarks.gpu import card as cards
from benchmarks.gpu.card import Card
from benchmarks.gpu.cases import FULL, SMALL, Arrays, Case, Models
from benchmarks.gpu.end_to_end import GRAPHS, STOCK, TOLERANCE, contenders
from benchmarks.gpu.report import Clock, Report
from models.retype import retyped

PLAIN, GRAPH = "ours, claim=all", "ours, claim=all, graph"
CONTENDERS = (STOCK, PLAIN, GRAPH)
BATCH = 3
#: MiniLM's, with real weights and at real lengths.
REAL = replace(FULL, name="real")
REAL_BATCHES = (1, 32)
#: What fp32 that is not rounded may differ by. TF32 and fp16: as in `end_to_end`.
EXACT = 1e-5


class Padded(Models):
    """Models of which a part of the last input is padding; MiniLM of scale REAL is in a file."""

    def __init__(self, folder: Path, minilm: Path | None = None) -> None:
        super().__init__(folder)
        self._minilm = minilm

    def path(self, case: Case) -> Path:
        """The file of a case's model."""
        if case.scale is not REAL or self._minilm is None:
            return super().path(case)
        digest = hashlib.sha256(self._minilm.read_bytes()).hexdigest()[:12]
        dtype = cards.dtype_of(case.mode)
        out = self.folder / f"{case.model}-{digest}-{dtype.__name__}.onnx"
        if not out.exists():
            onnx.save(retyped(onnx.load(self._minilm), dtype), out)
        return out

    def feed(self, case: Case) -> Arrays:
        """Inputs of a case."""
        feed = super().feed(case)
        if "attention_mask" in feed:
            mask = feed["attention_mask"]
            mask[-1, mask.shape[1] * 2 // 3 :] = 0
        return feed


def cases(args: Any) -> Iterator[Case]:
    """What is asked for."""
    modes = args.mode or cards.MODES
    for mode in modes:
        for batch in REAL_BATCHES if args.minilm else ():
            yield Case("minilm", mode, batch, "dynamic", REAL)
        for model in args.model:
            for sizes in args.sizes:
                yield Case(model, mode, BATCH, sizes, SMALL)


def limit(mode: str, stock: float | None) -> float:
    """The error that is still right, beside that of ONNX Runtime's own provider where there is one."""
    return EXACT if mode == "fp32" else max(TOLERANCE[mode], 2 * (stock or 0.0))


def measure(card: Card, case: Case, models: Models, args: Any, report: Report) -> dict[str, Any]:
    """The errors of one case, and the copies in a run. What fails goes to the report."""
    expected, feed, model = models.expected(case), models.feed(case), models.path(case)
    errors: dict[str, float] = {}
    memcpy: dict[str, int] = {}
    for name, make in contenders(card, case, model, args):
        if name not in CONTENDERS:
            continue
        try:
            captured = name in GRAPHS
            session = make(None if captured else models.folder / "profile")
            number = 1 if captured else None
            call, fetch = cards.bound(card, session, feed, [x.shape for x in expected], graph=number)
            if not captured:
                nodes = cards.profiled(session, call)
                memcpy[name] = sum(count for (_, op), count in nodes.items() if op.startswith("Memcpy"))
            for _ in range(4):  # a captured graph is replayed from the third run on
                call()
            if captured:
                cards.demand_replays(session)
            errors[name] = common.difference(fetch(), expected)
        except Exception as error:
            report.wrong.append(f"{case}, {name}: {error}")
    return {
        "case": str(case),
        "model": case.model,
        "mode": case.mode,
        "errors": errors,
        "memcpy": memcpy,
        "limit": limit(case.mode, errors.get(STOCK)),
    }


def judge(result: dict[str, Any]) -> list[str]:
    """What is wrong with one case."""
    lines = []
    for name, error in result["errors"].items():
        if name != STOCK and not error <= result["limit"]:
            lines.append(f"{result['case']}, {name}: error {error:.1e}, expected below {result['limit']:.0e}")
    for name, copies in result["memcpy"].items():
        if name != STOCK and copies:
            lines.append(f"{result['case']}, {name}: {copies} Memcpy nodes")
    return lines


def table(results: list[dict[str, Any]]) -> str:
    """A row for each case."""

    def row(result: dict[str, Any]) -> list[object]:
        errors = [f"{result['errors'][n]:.1e}" if n in result["errors"] else "-" for n in CONTENDERS]
        return [result["case"], *errors, f"{result['limit']:.0e}", result["memcpy"].get(PLAIN, "-")]

    return common.table(["error", *CONTENDERS, "limit", "Memcpy"], map(row, results))


def add_arguments(parser: Any) -> None:
    """Of this part."""
    parser.add_argument("--minilm", type=Path, metavar="FILE", help="MiniLM with its real weights, too")


def run(card: Card, args: Any, clock: Clock) -> Report:
    """The part."""
    report = Report("accuracy")
    if card.ours:
        report.left_out.append(f"everything: {card.ours}")
        return report
    if args.minilm is None:
        report.left_out.append("MiniLM with its real weights: no file (--minilm)")
    with tempfile.TemporaryDirectory(prefix="gpu-accuracy-") as made:
        folder = args.models or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        models = Padded(folder, args.minilm)
        for case in cases(args):
            if clock.left() < 0:
                report.left_out.append(f"{case}: no time left")
                continue
            report.results.append(measure(card, case, models, args, report))
            report.wrong += judge(report.results[-1])
        for path in folder.glob("profile*"):
            path.unlink()
    report.say("\n" + table(report.results))
    return report
