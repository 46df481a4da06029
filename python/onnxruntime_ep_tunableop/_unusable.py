"""When this package cannot be imported: onnxruntime or the native module is missing or broken.

Whoever imports it gets an error with the remedy. `tunableop doctor` still answers, with what needs neither.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def look_first() -> None:
    """For the doctor: a damaged native module may end the process that imports it."""
    if not _is_doctor():
        return
    from .doctor import library

    if why := library.broken_module():
        explain(ImportError(why))


def explain(error: Exception) -> None:
    """Raises an ImportError that says what helps, if that is known. For the doctor: reports and exits."""
    from .doctor import Asked, examine
    from .doctor.text import text

    report = examine(Asked())
    problems = report.of("problem")
    if not problems:
        return
    if _is_doctor():
        print(json.dumps(report.document(), indent=1) if "--json" in sys.argv else text(report))
        raise SystemExit(1)
    first = problems[0]
    raise ImportError(
        f"onnxruntime_ep_tunableop cannot be imported: {first.evidence[0]}; what helps: {first.remedy} "
        "(`tunableop doctor` says more)"
    ) from error


def _is_doctor() -> bool:
    """Whether this process is `tunableop doctor`, before its command line could be read."""
    words = getattr(sys, "argv", [])  # an embedded interpreter may have none
    program = Path(words[0]).name if words else ""
    as_module = program == "-m" and __package__ in sys.orig_argv
    return (program == "tunableop" or as_module) and words[1:2] == ["doctor"]
