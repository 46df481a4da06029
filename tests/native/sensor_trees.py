"""Trees of sysfs for the tests of sensors, and what sensors say they lack."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import tunableop_native_tests as native

#: What stands in files in the place of a number, sooner or later.
GARBAGE = ["", "abc", "99999999999999999999999999999999", "1e308", "-1e999", "nan", "inf", "45000 46000",
           "45000x", "-274000", "0x1002", "4" * 10_000, "\x00\x01\xff"]  # fmt: skip


def put(root: Path, files: dict[str, str]) -> None:
    """Writes files below `root`, each with the newline that sysfs gives."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


def monitor(root: Path, index: int, driver: str, **values: str) -> None:
    """A monitor of /sys/class/hwmon, which are links into the tree of devices, as in life."""
    home = f"sys/devices/platform/{driver}.{index}/hwmon/hwmon{index}"
    put(root, {f"{home}/name": driver, **{f"{home}/{name}": value for name, value in values.items()}})
    link = root / f"sys/class/hwmon/hwmon{index}"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(root / home)


def frequency(root: Path, processor: int, khz: str) -> None:
    put(root, {f"sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq": khz})


def missing(sensors: native.Sensors, what: str) -> str | None:
    """Why there is no such reading; None: there is."""
    lines = [line for line in sensors.missing() if line.startswith(what + ": ")]
    assert len(lines) <= 1
    return lines[0] if lines else None


def without_rights(check: Callable[[], bool]) -> bool:
    """What `check` says in a process that may not read everything: a child, as nobody if we are root."""
    child = os.fork()
    if child == 0:
        answer = 2
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            answer = 0 if check() else 1
        finally:
            os._exit(answer)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1), f"the child ended with {status}"
    return status == 0
