"""What each part of the GPU benchmark hands back, and the time it may take."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measure import QUICK, Plan


@dataclass
class Report:
    """Results of one part."""

    name: str
    text: list[str] = field(default_factory=list)  #: Markdown
    results: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  #: wrong answers and broken promises
    left_out: list[str] = field(default_factory=list)  #: what was not measured, and why
    seconds: float = 0.0

    def say(self, text: str) -> None:
        """Adds Markdown, and prints it now."""
        self.text.append(text)
        print(text, flush=True)


class Clock:
    """A part's time: it starts nothing new when it is over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds; below 0: over."""
        return self._end - time.monotonic()


def plan(args: Any) -> Plan:
    """How much to time."""
    base = QUICK if args.quick else Plan(rounds=11, block=0.03, warm_up=0.008)
    return Plan(args.rounds or base.rounds, base.block, base.warm_up, base.seed)
