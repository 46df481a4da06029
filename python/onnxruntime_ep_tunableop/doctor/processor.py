"""What the processor has, and how much of it this process may use."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import _core
from .check import Finding, asks
from .machine import read, state_line


@asks("machine.processor", "which kernels does the processor have?")
def processor() -> Finding:
    """The instruction sets of the processor, and the libraries that run on it."""
    cpu = _core.cpu_fingerprint()
    states = _core.libraries()
    evidence = [f"{cpu['model']}: {cpu['features']}", *(state_line(state) for state in states)]
    native = next(state for state in states if state["library"] == "native")
    if not native["available"]:
        evidence.insert(0, native["reason"])
        return Finding("problem", evidence, "run on a processor with SSE4.2, or on a card")
    if native["identity"].endswith("+sse42"):
        evidence.insert(0, "without AVX2 and FMA there is little to be gained")
        return Finding("note", evidence)
    external = [state for state in states if not state["available"] and "/" in state["library"]]
    if external:
        evidence.insert(0, f"{external[0]['library']} is not used: {external[0]['reason']}")
        remedy = f"remove {external[0]['library']} from TUNABLEOP_CANDIDATE_LIBRARIES, or build it anew"
        return Finding("problem", evidence, remedy)
    chosen = os.environ.get("TUNABLEOP_OPENBLAS_LIBRARY")
    openblas = next((state for state in states if state["library"] == "openblas"), None)
    if openblas is not None and not openblas["available"]:
        evidence.insert(0, f"openblas is not used: {openblas['reason']}")
        if chosen:
            return Finding("problem", evidence, "unset TUNABLEOP_OPENBLAS_LIBRARY")
        return Finding("note", evidence, 'pip install "onnxruntime-ep-tunableop[openblas]"')
    return Finding("ok", evidence)


@asks("machine.threads", "may the process use as many processors as sessions have threads?")
def threads(root: Path) -> Finding:
    """How many threads a session starts by default, against what the process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    cores = physical_cores(allowed, root)
    evidence = [f"{cores} cores that this process may run on: a session has as many threads by default"]
    quota = cpu_quota(root)
    if quota is None:
        return Finding("ok", [*evidence, "no limit of its processor time"])
    evidence.append(f"its control group may use the time of {quota:g} processors")
    if quota >= cores:
        return Finding("ok", evidence)
    count = max(1, int(quota))
    evidence.insert(0, "more threads than processor time: they wait for each other")
    return Finding("warning", evidence, f"sess_options.intra_op_num_threads = {count}")


def physical_cores(allowed: Sequence[int], root: Path) -> int:
    """Cores, not hyper-threads, as ONNX Runtime counts them for its pool."""
    folder = root / "sys/devices/system/cpu"
    return max(
        1, len({read(folder / f"cpu{cpu}/topology/thread_siblings_list") or f"cpu{cpu}" for cpu in allowed})
    )


def cpu_quota(root: Path) -> float | None:
    """Processors whose time the control group may use; None: no limit."""
    limits: list[float] = []
    own = read(root / "proc/self/cgroup").splitlines()
    for line in own or ["0::/"]:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            limits += _limits(root / "sys/fs/cgroup", path, _quota_v2)
        elif "cpu" in controllers.split(","):
            limits += _limits(root / "sys/fs/cgroup" / controllers, path, _quota_v1)
            limits += _limits(root / "sys/fs/cgroup/cpu", path, _quota_v1)
    return min(limits, default=None)


def _limits(base: Path, path: str, quota_of: Callable[[Path], float | None]) -> list[float]:
    """Of the group and of all above it: the least counts."""
    folder = base / path.lstrip("/")
    found = []
    for group in (folder, *folder.parents):
        quota = quota_of(group)
        if quota is not None:
            found.append(float(quota))
        if group == base:
            break
    return found


def _quota_v2(group: Path) -> float | None:
    quota, _, period = read(group / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def _quota_v1(group: Path) -> float | None:
    quota, period = read(group / "cpu.cfs_quota_us"), read(group / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None
