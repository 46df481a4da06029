"""`tunableop selftest` as a part of the benchmark: figures of wrong kernels are of no use."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.card import Card
from benchmarks.gpu.report import Clock, Report


def run(card: Card, args: Any, clock: Clock) -> Report:
    """The part."""
    report = Report("selftest")
    if card.ours:
        report.left_out.append(f"everything: {card.ours}")
        return report
    from onnxruntime_ep_tunableop import _selftest
    from onnxruntime_ep_tunableop.cli import selftest

    outcome = _selftest.run(
        card.id, quick=args.quick, seconds=min(60.0, clock.left()), progress=lambda _: None
    )
    report.say(f"\n```\n{selftest.text(outcome)}\n```")
    report.results.append(selftest.document(outcome))
    report.wrong += [f"{r.library} {r.kind}: {line}" for r in outcome.rows for line in r.failures]
    if not outcome.rows:
        report.wrong.append("nothing was tested")
    return report
