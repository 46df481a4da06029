"""Trees of sysfs for the tests of sensors, and what sensors say they lack."""

from __future__ import annotations

from pathlib import Path

import tunableop_native_tests as native


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
