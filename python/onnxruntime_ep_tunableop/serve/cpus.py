"""How many threads are worth having here: what a container is given, not what its machine has.

ONNX Runtime makes a pool of as many threads as the machine has cores. Under a quota (`--cpus 2`, or
a pod's limit) they use up in a part of each period what the container may use in all of it, and all
stand still for the rest. On cores that are not the container's it complains for each thread. Both
can be read from the system.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def thread_limit(root: Path = _ROOT, allowed: set[int] | None = None) -> int:
    """Threads of a pool that this process can keep busy; 0: the whole machine's, and nothing is to be said.

    A quota that is no whole number is rounded down, to 1 at least: threads of a pool also wait busily, and
    one more would use up what the others need.

    Args:
        root: where `proc` and `sys` are.
        allowed: processors that this process may run on; None: those of its affinity.
    """
    if allowed is None:
        allowed = os.sched_getaffinity(0)
    online = _online(root) or allowed
    limits = []
    if allowed < online:
        limits.append(_cores(root, allowed))
    quota = _quota(root)
    if quota is not None and quota < _cores(root, allowed):
        limits.append(max(math.floor(quota), 1))
    return min(limits, default=0)


def _online(root: Path) -> set[int]:
    return _numbers(_read(root / "sys/devices/system/cpu/online"))


def _cores(root: Path, processors: set[int]) -> int:
    """Cores among `processors`, whose hardware threads share one."""
    folder = root / "sys/devices/system/cpu"
    siblings = {
        _read(folder / f"cpu{number}/topology/thread_siblings_list") or f"{number}" for number in processors
    }
    return max(len(siblings), 1)


def _quota(root: Path) -> float | None:
    """Processors' worth of time, the least that this process' control groups allow; None: all there is."""
    shares = [share for folder in _groups(root) for share in (_share_v2(folder), _share_v1(folder)) if share]
    return min(shares, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """The folders of this process' groups and of those above.

    Within a container the own group is mostly the root of what is mounted, whatever its name outside.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, controllers, path = parts
        if controllers == "":
            mounts = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]
        elif "cpu" in controllers.split(","):
            mounts = [root / "sys/fs/cgroup" / name for name in (controllers, "cpu")]
        else:
            continue
        names = [name for name in path.split("/") if name not in ("", "..")]
        for mount in mounts:
            for depth in range(len(names) + 1):
                yield mount.joinpath(*names[:depth])


def _share_v2(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return _share(quota, period)


def _share_v1(folder: Path) -> float | None:
    return _share(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _share(quota: str, period: str) -> float | None:
    """None for "max" and -1, which are no quota, and for what is no number."""
    if not quota.isdecimal() or not period.isdecimal() or int(quota) == 0 or int(period) == 0:
        return None
    return int(quota) / int(period)


def _numbers(text: str) -> set[int]:
    """Of a list as the kernel writes it: 0-3,8."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
