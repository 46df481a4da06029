"""Self-test and measurements on a machine with a card, in one command that needs no network.

    python -m benchmarks.gpu.run [--device cuda:0] [--only PART ...] [--seconds 90] [--quick]
                                 [--json FILE] [--markdown FILE]

Each part starts nothing new after --seconds and says what it left out. The exit status is 1 when something
was wrong: an answer, or a promise such as "no copies beside ONNX Runtime's own provider".
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu import accuracy, alone, cases, create, end_to_end, families, overhead, selftest, shapes
from benchmarks.gpu import card as cards
from benchmarks.gpu.card import Card
from benchmarks.gpu.report import Clock, Report

PARTS: dict[str, Callable[[Card, Any, Clock], Report]] = {
    "selftest": selftest.run,
    "shapes": shapes.run,
    "end_to_end": end_to_end.run,
    "families": families.run,
    "accuracy": accuracy.run,
    "overhead": overhead.run,
    "create": create.run,
    "alone": alone.run,
}


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = argparse.ArgumentParser(description="Self-test and measurements on a card.")
    made.add_argument("--device", default="auto", help="as the option: cuda, cuda:1, hip ... (default: auto)")
    made.add_argument("--only", nargs="+", choices=list(PARTS), help="these parts")
    made.add_argument("--seconds", type=float, default=90, help="for each part (default: 90)")
    made.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a look, not a result")
    made.add_argument("--rounds", type=int, help="rounds of each comparison (default: 11, quick 5)")
    made.add_argument("--json", type=Path, metavar="FILE", help="everything measured")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="what is printed")
    made.add_argument("--max-tuning-ms", type=int, default=300, help="for each problem (default: 300)")
    shapes.add_arguments(made.add_argument_group("shapes"))
    cases.add_arguments(made.add_argument_group("whole models"))
    end_to_end.add_arguments(made.add_argument_group("end_to_end, families"))
    create.add_arguments(made.add_argument_group("create"))
    accuracy.add_arguments(made.add_argument_group("accuracy"))
    return made


def _one(name: str, card: Card, args: Any) -> Report:
    started = time.monotonic()
    print(f"\n## {name}", flush=True)
    try:
        report = PARTS[name](card, args, Clock(args.seconds))
    except Exception as error:  # the other parts are still worth their time
        traceback.print_exc()
        report = Report(name, wrong=[f"the part failed: {error}"])
    report.seconds = time.monotonic() - started
    for label, lines in (("left out", report.left_out), ("WRONG", report.wrong)):
        if lines:
            report.say(f"\n{label}:\n\n" + "\n".join(f"- {line}" for line in lines))
    report.say(f"\n({report.seconds:.0f} s)")
    return report


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    args = parser().parse_args(arguments)
    card = cards.find(args.device)
    facts = cards.machine(card) | cards.environment()
    head = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    print(f"# {card.id}\n\n{head}", flush=True)
    reports = [_one(name, card, args) for name in args.only or PARTS]
    if args.markdown is not None:
        parts = [f"## {r.name}\n" + "\n".join(r.text) for r in reports]
        args.markdown.parent.mkdir(parents=True, exist_ok=True)
        args.markdown.write_text(f"# {card.id}\n\n{head}\n\n" + "\n\n".join(parts) + "\n")
    if args.json is not None:
        document = {
            "benchmark": "gpu",
            "machine": facts,
            "quick": args.quick,
            "parts": {
                r.name: {k: v for k, v in vars(r).items() if k not in ("name", "text")} for r in reports
            },
        }
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return 1 if any(r.wrong for r in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
