"""The process that measures when tuning is isolated: python -m ... FD, a job as JSON on stdin.

It reports on the file descriptor FD, a line of JSON for each event, apart from what libraries print.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import sys
from typing import Any

import numpy as np

from .errors import TunableOpError
from .tuning import TuneProgress, tune_here

PR_SET_PDEATHSIG = 1  # sys/prctl.h


def _shapes(portable: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    if portable is None:
        return None
    return [
        entry["dimensions"]
        | {name: np.load(path, allow_pickle=False) for name, path in entry["arrays"].items()}
        for entry in portable
    ]


def work(job: dict[str, Any], report: int) -> int:
    """Does the job; the exit code."""

    def tell(event: str, **what: Any) -> None:
        os.write(report, json.dumps({"event": event, **what}).encode() + b"\n")

    def progress(step: TuneProgress) -> None:
        tell("progress", **dataclasses.asdict(step))

    try:
        summary = tune_here(
            job["model"],
            _shapes(job["shapes"]),
            job["dims"],
            job["cache"],
            progress=progress,
            options=job["options"],
            warn=job["warn"],
        )
    except Exception as error:
        name = type(error).__name__ if isinstance(error, TunableOpError) else "TunableOpError"
        tell("error", type=name, message=str(error))
        return 1
    tell("done", tuned=summary.tuned, seconds=summary.seconds, denied=summary.denied)
    return 0


def main() -> int:
    """Reads the job and does it."""
    # A worker that hangs must not outlive the parent that would have killed it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return work(json.load(sys.stdin), int(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
