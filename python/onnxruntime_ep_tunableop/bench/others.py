"""How much of the processors other processes took while something was measured."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
NOTABLE = 0.05  # share of the processors' time


class OtherWork:
    """Looks at the processors that this process may use, from its making until `share` is asked.

    `pids`: other processes that take part, workers for instance. Linux's /proc counts in ticks of 10 ms, so a
    second or more should lie between. Not thread-safe.
    """

    def __init__(self, pids: Iterable[int] = (), proc: Path = PROC) -> None:
        self._proc = proc
        self._pids = {os.getpid(), *pids}
        self._processors = os.sched_getaffinity(0)
        self._begin = time.monotonic()
        self._busy = self._busy_seconds()
        self._own = self._own_seconds()

    def share(self) -> float | None:
        """From 0 to 1; None where the system does not tell."""
        wall = time.monotonic() - self._begin
        busy, own = self._busy_seconds(), self._own_seconds()
        if busy is None or self._busy is None or wall <= 0.0:
            return None
        others = (busy - self._busy) - (own - self._own)
        return min(1.0, max(0.0, others / (wall * len(self._processors))))

    def _busy_seconds(self) -> float | None:
        """Of the processors: all but idle and waiting for disks (proc_stat(5))."""
        try:
            lines = (self._proc / "stat").read_text(encoding="ascii").splitlines()
            total = 0
            for line in lines:
                name, *ticks = line.split()
                if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in self._processors:
                    user, nice, system, _idle, _wait, *rest = (int(tick) for tick in ticks[:8])
                    total += user + nice + system + sum(rest)
        except (OSError, ValueError):
            return None
        return total / os.sysconf("SC_CLK_TCK")

    def _own_seconds(self) -> float:
        """Of the processes that take part (proc_pid_stat(5)); one that has ended counts no more."""
        total = 0
        for pid in self._pids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name of the program stands in brackets, and may hold anything.
                text = (self._proc / str(pid) / "stat").read_text(encoding="ascii")
                fields = text.rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")


def note(share: float | None) -> list[str]:
    """What a report says of it: nothing, or one line."""
    if share is None or share < NOTABLE:
        return []
    return [
        f"other processes took {100 * share:.0f} % of the processors while this was measured: "
        "the figures are those of a busy machine"
    ]
