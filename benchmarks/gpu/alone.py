"""Our provider without ONNX Runtime's own for the card: the rest of a model runs on the CPU.

What that costs is copies: every product's operands go to the card and its result comes back. Counted in a
profile of one run, and compared with ONNX Runtime's CPU provider on all processors.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime as ort

from benchmarks import common
from benchmarks.gpu import card as cards
from benchmarks.gpu.card import Card
from benchmarks.gpu.cases import KINDS, Case, Models, scale_of
from benchmarks.gpu.report import Clock, Report, plan
from benchmarks.measure import Ratio, interleave

CPU = "CPU provider"
CLAIMS = ("gemm", "weights")
HEADER = ("contender", "ms", "CPU provider / this", "our nodes", "to card", "to host", "error")


def _cpu_session(model: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = len(common.PROCESSORS)
    options.log_severity_level = 3
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _our_session(card: Card, model: Path, claim: str, profile: Path, args: Any) -> ort.InferenceSession:
    """As `cards.our_session`, with all processors for what runs on them."""
    import onnxruntime_ep_tunableop as tunableop

    options = cards.session_options(profile)
    options.intra_op_num_threads = len(common.PROCESSORS)
    return tunableop.InferenceSession(
        str(model),
        options,
        providers=["CPUExecutionProvider"],
        device=card.id,
        claim=claim,
        max_tuning_ms=args.max_tuning_ms,
    )


def measure(card: Card, case: Case, models: Models, args: Any, report: Report) -> list[dict[str, Any]]:
    """One result for each contender. Inputs and outputs are numpy arrays."""
    model, feed, expected = models.path(case), models.feed(case), models.expected(case)
    sessions = {CPU: _cpu_session(model)}
    nodes: dict[str, Any] = {}
    errors: dict[str, float] = {}
    for claim in CLAIMS:
        name = f"ours alone, claim={claim}"
        try:
            session = _our_session(card, model, claim, models.folder / "profile", args)
            nodes[name] = cards.profiled(session, partial(session.run, None, feed))
            errors[name] = common.difference(session.run(None, feed), expected)
            sessions[name] = session
        except Exception as error:
            report.wrong.append(f"{case}, {name}: {error}")
    timed = interleave({n: partial(s.run, None, feed) for n, s in sessions.items()}, plan(args))
    results = []
    for name in sessions:
        ran = nodes.get(name, {})
        results.append(
            {
                "case": str(case),
                "contender": name,
                "ms": timed.median(name) * 1e3,
                "ratio": vars(timed.ratio(CPU, name)),
                "our_nodes": sum(
                    c for (p, op), c in ran.items() if p == common.OUR_PROVIDER and "Memcpy" not in op
                ),
                "to_card": sum(c for (_, op), c in ran.items() if op == "MemcpyFromHost"),
                "to_host": sum(c for (_, op), c in ran.items() if op == "MemcpyToHost"),
                "error": errors.get(name, 0.0),
                "rounds_ms": [s * 1e3 for s in timed.seconds[name]],
            }
        )
    for r in results:
        if not r["error"] <= 1e-4:
            report.wrong.append(f"{case}, {r['contender']}: error {r['error']:.1e}")
    return results


def run(card: Card, args: Any, clock: Clock) -> Report:
    """The part."""
    report = Report("alone")
    if card.ours:
        report.left_out.append(f"everything: {card.ours}")
        return report
    with tempfile.TemporaryDirectory(prefix="gpu-alone-") as made:
        folder = args.models or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        models = Models(folder)
        for batch in args.batch or KINDS["bert"].batches:
            case = Case("bert", "fp32", batch, "dynamic", scale_of(args))
            if clock.left() < 0:
                report.left_out.append(f"{case}: no time left")
                continue
            results = measure(card, case, models, args, report)
            rows = [
                (
                    r["contender"],
                    f"{r['ms']:.2f}",
                    Ratio(**r["ratio"]),
                    r["our_nodes"],
                    r["to_card"],
                    r["to_host"],
                    f"{r['error']:.1e}",
                )
                for r in results
            ]
            report.say(f"\n#### {case}\n\n{common.table(HEADER, rows)}")
            report.results += results
        for path in folder.glob("profile*"):
            path.unlink()
    return report
