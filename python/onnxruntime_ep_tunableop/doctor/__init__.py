"""Why is it not taking effect? Each question with a verdict, evidence and a remedy (docs/doctor.md).

One part of the questions a file: library, runtime, environment, machine, clocks, options, model, cache.
"""

from __future__ import annotations

from .asked import Asked
from .check import Check, Report, Verdict
from .examine import examine

__all__ = ["Asked", "Check", "Report", "Verdict", "examine"]
