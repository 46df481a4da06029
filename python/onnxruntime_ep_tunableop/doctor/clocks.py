"""Can clocks be read, are they stable, and is the machine ours alone while something is measured?"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import _onnx
from .check import Finding, asks, count
from .machine import read

#: The fixed product: large enough that a clock counts, small enough to be repeated a thousand times.
SIZE = 256
PROBE_SECONDS = 0.5
WARM_SECONDS = 0.2
MOST_SAMPLES = 5000

#: Beyond these a small gain (`min_gain` is 3 %) is hard to tell from chance.
DRIFT = 0.05
SPREAD = 0.15
BUSY = 0.10  # of the processors, by others


@dataclass(frozen=True)
class Stability:
    """What repeated timings of one thing say of the machine."""

    samples: int
    median: float  #: in seconds
    spread: float  #: (90th percentile / median) - 1
    drift: float  #: median of the last third / median of the first, - 1; below 0: it became faster

    @staticmethod
    def of(times: Sequence[float]) -> Stability:
        """Of at least three timings in their order."""
        third = len(times) // 3
        first, last = statistics.median(times[:third]), statistics.median(times[-third:])
        middle = statistics.median(times)
        high = sorted(times)[min(len(times) - 1, int(0.9 * len(times)))]
        return Stability(len(times), middle, high / middle - 1, last / first - 1)


@dataclass(frozen=True)
class Work:
    """Processor time since the system started, in seconds."""

    busy: float  #: of everybody
    stolen: float  #: what a virtual machine wanted and did not get
    own: float  #: of this process
    at: float


def work(root: Path) -> Work | None:
    """Now. None: the system does not tell."""
    numbers = read(root / "proc/stat").partition("\n")[0].split()[1:]
    if len(numbers) < 8:
        return None
    ticks = [int(number) / os.sysconf("SC_CLK_TCK") for number in numbers]
    user, nice, system, _idle, _wait, irq, soft, steal = ticks[:8]
    return Work(user + nice + system + irq + soft, steal, time.process_time(), time.monotonic())


@dataclass(frozen=True)
class Load:
    """The shares of all processors that others took while the probe ran."""

    others: float
    stolen: float

    @staticmethod
    def between(before: Work, after: Work, processors: int) -> Load:
        """From two readings."""
        whole = max(1e-9, (after.at - before.at) * processors)
        others = after.busy - before.busy - (after.own - before.own)
        return Load(max(0.0, others / whole), max(0.0, (after.stolen - before.stolen) / whole))


def probe(
    run: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
    *,
    warm: float,
    seconds: float,
) -> list[float]:
    """Seconds of each call, after a warm-up that lets clocks rise."""
    end = clock() + warm
    while clock() < end:
        run()
    times: list[float] = []
    now = clock()
    end = now + seconds
    while len(times) < 3 or (now < end and len(times) < MOST_SAMPLES):
        run()
        then, now = now, clock()
        times.append(now - then)
    return times


def product(device: str) -> Callable[[], object]:
    """The fixed product on one thread of the device's default kernel."""
    from ..session import InferenceSession
    from . import trial

    random = np.random.default_rng(0)
    a = random.uniform(-1, 1, (SIZE, SIZE)).astype(np.float32)
    shape = [SIZE, SIZE]
    model = _onnx.model(
        [_onnx.Node("MatMul", ["A", "B"], "Y")],
        {"A": (_onnx.FLOAT, shape)},
        ("Y", _onnx.FLOAT, shape),
        {"B": a},
    )
    settings = trial.settings()
    settings.intra_op_num_threads = 1
    session = InferenceSession(model, settings, tuning="off", device=device)
    return lambda: session.run(None, {"A": a})


@asks("clocks.read", "can clock and temperature be read?")
def readable(device: str) -> Finding:
    """As the native side reads them while it measures a small product."""
    from .. import _control
    from . import trial

    session = trial.session(device=device, tuning="online", measure_mode=1, max_tuning_ms=50)
    trial.error(session)
    shapes = _control.explain(session).shapes
    clock, temperature = (shapes[0].clock_mhz, shapes[0].temperature_c) if shapes else (0.0, 0.0)
    evidence = [
        f"clock {clock:.0f} MHz" if clock > 0 else "no clock: a change of it cannot make a choice stale"
    ]
    evidence.append(
        f"temperature {temperature:.0f} C"
        if temperature > 0
        else "no temperature (as in most virtual machines): a change of it cannot make a choice stale"
    )
    return Finding("ok" if clock > 0 and temperature > 0 else "note", evidence)


@asks("clocks.governor", "does a governor hold the processor's clock?")
def governor(root: Path) -> Finding | None:
    """Which one, where there is one."""
    folders = list((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
    found = Counter(read(folder / "scaling_governor") for folder in folders)
    found.pop("", None)
    if not found:
        return Finding("ok", ["none (as in virtual machines)"])
    driver = read(folders[0] / "scaling_driver")
    evidence = [f"{', '.join(sorted(found))} (driver {driver or 'not known'})"]
    # Of intel_pstate and amd_pstate_epp "powersave" is the name of what raises the clock under load.
    saves = "powersave" in found and driver not in ("intel_pstate", "amd_pstate_epp", "amd-pstate-epp")
    if saves or "conservative" in found or "userspace" in found:
        remedy = "sudo cpupower frequency-set -g performance"
        return Finding("warning", ["the clock stays low under load", *evidence], remedy)
    return Finding("ok", evidence)


def judge(measured: Stability, load: Load | None, stops: int = 0, device: str = "cpu") -> Finding:
    """Whether it is stable, and if not, whether other work is the cause."""
    evidence = [
        f"{SIZE}x{SIZE}x{SIZE} on one thread, {device}, {measured.samples} times: "
        f"median {measured.median * 1e3:.3f} ms, 90th percentile {measured.spread:+.0%}, "
        f"end against start {measured.drift:+.0%}"
    ]
    busy = load is not None and (load.others > BUSY or load.stolen > 0.01)
    if load is not None:
        evidence.append(
            f"meanwhile others took {load.others:.0%} of the processors, {load.stolen:.0%} was stolen"
        )
    if stops:
        evidence.insert(0, f"the control group's limit stopped this process {count(stops, 'time')}")
        return Finding("warning", evidence, "give the container more processor time (docker run --cpus ...)")
    unstable = measured.spread > SPREAD or abs(measured.drift) > DRIFT
    if busy:
        evidence.insert(0, "other work is on this machine: measurements meet it")
        remedy = "tune when nothing else runs: tunableop tune MODEL --cache FILE, then tuning='cached'"
        return Finding("warning" if unstable else "note", evidence, remedy)
    if unstable:
        evidence.insert(0, "times vary more than most gains")
        return Finding("warning", evidence, "hold the clock: sudo cpupower frequency-set -g performance")
    return Finding("ok", evidence)


def measure(device: str, root: Path) -> tuple[Stability, Load | None, int]:
    """Runs the probe; what it says, with the load of the machine and how often a limit stopped it."""
    run = product(device)
    throttled = _throttled(root)
    before = work(root)
    times = probe(run, warm=WARM_SECONDS, seconds=PROBE_SECONDS)
    after = work(root)
    load = Load.between(before, after, os.cpu_count() or 1) if before and after else None
    return Stability.of(times), load, max(0, _throttled(root) - throttled)


def _throttled(root: Path) -> int:
    """How often a limit of the control group has stopped it."""
    group = read(root / "proc/self/cgroup").rpartition("0::/")[2].partition("\n")[0]
    for line in read(root / "sys/fs/cgroup" / group / "cpu.stat").splitlines():
        if line.startswith("nr_throttled "):
            return int(line.split()[1])
    return 0


@asks("clocks.stable", "does one product take the same time again and again?")
def stable(device: str, root: Path) -> Finding:
    """Measured now."""
    return judge(*measure(device, root), device)
