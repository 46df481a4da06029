"""The self-test as one of the questions: is every kernel right?"""

from __future__ import annotations

from typing import Any

from .. import _selftest
from .check import REPORT, Check, Finding, asks

_MOST = 10  # failures that are told; the document has all


def run(device: str, *, quick: bool) -> tuple[Check | None, dict[str, Any]]:
    """Runs it; the check, and everything that was found."""
    from ..cli import selftest

    found: dict[str, Any] = {}

    @asks("selftest.kernels", "is every kernel of the device right?")
    def ask() -> Finding:
        outcome = _selftest.run(device, quick=quick, seconds=15.0 if quick else 60.0, progress=lambda _: None)
        found.update(selftest.document(outcome))
        kernels = sum(row.kernels for row in outcome.rows)
        evidence = [
            f"{kernels} calls checked in {outcome.seconds:.0f} s on {outcome.device.id}",
            *outcome.notes,
        ]
        if outcome.right:
            return Finding("ok", evidence)
        failures = [
            f"{row.library} {row.kind}: {failure}" for row in outcome.rows for failure in row.failures
        ]
        wrong = {row.library for row in outcome.rows if row.failures}
        right = sorted(set(outcome.device.libraries) - wrong)
        remedy = f"candidates={','.join(right)!r}, and {REPORT}" if right else REPORT
        return Finding("problem", [*failures[:_MOST], *evidence], remedy)

    return ask(), found
