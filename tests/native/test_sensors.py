"""Sensors of processors: trees of sysfs as real machines have them, and broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tunableop_native_tests as native
from sensor_trees import GARBAGE, frequency, missing, monitor, put, without_rights

ALLOWED = sorted(os.sched_getaffinity(os.getpid()))


@pytest.fixture(autouse=True)
def _no_other_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNABLEOP_SENSORS_ROOT", raising=False)


# ---- processors ---------------------------------------------------------------------------------


def test_intel(tmp_path: Path) -> None:
    monitor(tmp_path, 0, "nvme", temp1_input="91000", temp1_label="Composite")
    monitor(
        tmp_path, 2, "coretemp",
        temp1_input="61000", temp1_label="Package id 0", temp2_input="70000", temp2_label="Core 0",
    )  # fmt: skip
    monitor(tmp_path, 10, "coretemp", temp1_input="64500", temp1_label="Package id 1")
    for processor in ALLOWED:
        frequency(tmp_path, processor, "3400000")
    frequency(tmp_path, max(ALLOWED) + 1, "800000")  # of others: idle
    sensors = native.cpu_sensors(tmp_path)
    state = sensors.read()
    assert state.temperature_c == 64.5
    assert state.clock_mhz == pytest.approx(3400.0)
    assert state.memory_fragmentation is None
    assert missing(sensors, "temperature") is None
    assert missing(sensors, "clock") is None
    assert missing(sensors, "memory fragmentation") is not None


def test_amd_processor(tmp_path: Path) -> None:
    monitor(
        tmp_path, 0, "k10temp",
        temp1_input="55125", temp1_label="Tctl", temp3_input="80000", temp3_label="Tccd1",
    )  # fmt: skip
    assert native.cpu_sensors(tmp_path).read().temperature_c == pytest.approx(55.125)


@pytest.mark.parametrize("driver", ["coretemp", "k10temp", "zenpower"])
def test_a_driver_without_labels_gives_the_hottest(tmp_path: Path, driver: str) -> None:
    monitor(tmp_path, 0, driver, temp1_input="40000", temp2_input="47000", temp10_input="45000")
    assert native.cpu_sensors(tmp_path).read().temperature_c == 47.0


def test_arm_thermal_zones(tmp_path: Path) -> None:
    zones = {0: ("soc-thermal", "70000"), 1: ("cpu0-thermal", "51000"), 2: ("CPU-therm", "52500")}
    for index, (kind, value) in zones.items():
        put(tmp_path, {f"sys/class/thermal/thermal_zone{index}/type": kind})
        put(tmp_path, {f"sys/class/thermal/thermal_zone{index}/temp": value})
    assert native.cpu_sensors(tmp_path).read().temperature_c == 52.5


def test_the_zone_of_the_package_comes_first(tmp_path: Path) -> None:
    for index, (kind, value) in enumerate({"cpu-thermal": "90000", "x86_pkg_temp": "44000"}.items()):
        put(tmp_path, {f"sys/class/thermal/thermal_zone{index}/type": kind})
        put(tmp_path, {f"sys/class/thermal/thermal_zone{index}/temp": value})
    assert native.cpu_sensors(tmp_path).read().temperature_c == 44.0


def test_zones_stand_in_for_a_monitor_that_fails(tmp_path: Path) -> None:
    monitor(tmp_path, 0, "coretemp", temp1_input="-274000", temp1_label="Package id 0")
    put(tmp_path, {"sys/class/thermal/thermal_zone0/type": "x86_pkg_temp"})
    put(tmp_path, {"sys/class/thermal/thermal_zone0/temp": "44000"})
    assert native.cpu_sensors(tmp_path).read().temperature_c == 44.0


def test_clock_is_the_mean_of_the_processors_allowed(tmp_path: Path) -> None:
    for index, processor in enumerate(ALLOWED):
        frequency(tmp_path, processor, str(2_000_000 + 100_000 * index))
    expected = 2000.0 + 100.0 * (len(ALLOWED) - 1) / 2
    assert native.cpu_sensors(tmp_path).read().clock_mhz == pytest.approx(expected)


def test_clock_follows_the_affinity_of_the_process(tmp_path: Path) -> None:
    if len(ALLOWED) < 2:
        pytest.skip("this process may use one processor only")
    first, second = ALLOWED[:2]
    frequency(tmp_path, first, "3000000")
    frequency(tmp_path, second, "1000000")
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "import tunableop_native_tests as native\n"
        "sensors = native.cpu_sensors(sys.argv[2])\n"
        "for processor in sys.argv[3:]:\n"
        "    os.sched_setaffinity(0, {int(processor)})\n"
        "    print(sensors.read().clock_mhz)\n"
    )
    folder = str(Path(native.__file__).parent)
    command = [sys.executable, "-c", code, folder, str(tmp_path), str(first), str(second)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert [float(line) for line in output.split()] == pytest.approx([3000.0, 1000.0])


def cpuinfo(clocks: dict[int, str]) -> str:
    blocks = [f"processor\t: {index}\nmodel name\t: Make: believe\ncpu MHz\t\t: {mhz}\n"
              for index, mhz in clocks.items()]  # fmt: skip
    return "\n".join(blocks)


def test_without_cpufreq_the_clock_comes_from_cpuinfo(tmp_path: Path) -> None:
    clocks = dict.fromkeys(ALLOWED, "2299.998") | {max(ALLOWED) + 1: "800.0"}
    put(tmp_path, {"proc/cpuinfo": cpuinfo(clocks)})
    assert native.cpu_sensors(tmp_path).read().clock_mhz == pytest.approx(2299.998)


def test_cpuinfo_of_a_thousand_processors(tmp_path: Path) -> None:
    filler = "flags\t\t: " + "avx512f " * 180
    clocks = dict.fromkeys(range(1024), f"2500.000\n{filler}")
    put(tmp_path, {"proc/cpuinfo": cpuinfo(clocks)})
    assert native.cpu_sensors(tmp_path).read().clock_mhz == pytest.approx(2500.0)


def test_an_empty_machine_says_what_it_lacks(tmp_path: Path) -> None:
    sensors = native.cpu_sensors(tmp_path)
    state = sensors.read()
    assert (state.temperature_c, state.clock_mhz, state.memory_fragmentation) == (None, None, None)
    assert str(tmp_path / "sys/class/hwmon") in str(missing(sensors, "temperature"))
    assert str(tmp_path / "proc/cpuinfo") in str(missing(sensors, "clock"))


def test_the_root_can_be_given_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monitor(tmp_path, 0, "coretemp", temp1_input="33000")
    monkeypatch.setenv("TUNABLEOP_SENSORS_ROOT", str(tmp_path))
    sensors = native.cpu_sensors()
    monkeypatch.delenv("TUNABLEOP_SENSORS_ROOT")
    assert sensors.read().temperature_c == 33.0
    # A folder that was named is not replaced.
    monkeypatch.setenv("TUNABLEOP_SENSORS_ROOT", str(tmp_path))
    assert native.cpu_sensors(tmp_path / "elsewhere").read().temperature_c is None


def test_this_machine_answers() -> None:
    sensors = native.cpu_sensors()
    state = sensors.read()
    assert (state.temperature_c is None) == (missing(sensors, "temperature") is not None)
    assert (state.clock_mhz is None) == (missing(sensors, "clock") is not None)


# ---- content that nobody expects ----------------------------------------------------------------


@pytest.mark.parametrize("content", GARBAGE)
def test_garbage_is_no_reading(tmp_path: Path, content: str) -> None:
    monitor(tmp_path, 0, "coretemp", temp1_input=content, temp1_label="Package id 0")
    put(tmp_path, {"sys/class/thermal/thermal_zone0/type": "x86_pkg_temp"})
    put(tmp_path, {"sys/class/thermal/thermal_zone0/temp": content})
    put(tmp_path, {"proc/cpuinfo": cpuinfo(dict.fromkeys(ALLOWED, content))})
    for processor in ALLOWED:
        frequency(tmp_path, processor, content if "45000" not in content else "x")
    sensors = native.cpu_sensors(tmp_path)
    state = sensors.read()
    assert state.temperature_c is None
    assert state.clock_mhz is None
    assert "temp1_input" in str(missing(sensors, "temperature"))


def test_folders_and_pipes_in_the_place_of_files(tmp_path: Path) -> None:
    for index, make in enumerate[Callable[[Path], None]]([Path.mkdir, os.mkfifo, lambda p: p.symlink_to(p)]):
        monitor(tmp_path, index, "coretemp")
        make(tmp_path / f"sys/class/hwmon/hwmon{index}/temp1_input")
    (tmp_path / "proc").mkdir()
    os.mkfifo(tmp_path / "proc/cpuinfo")  # reading it would wait for ever
    (tmp_path / "sys/class/thermal").mkdir()
    (tmp_path / "sys/class/thermal/thermal_zone0").write_text("a file in the place of a folder")
    state = native.cpu_sensors(tmp_path).read()
    assert (state.temperature_c, state.clock_mhz) == (None, None)


def test_files_that_may_not_be_read(tmp_path: Path) -> None:
    monitor(tmp_path, 0, "coretemp", temp1_input="40000")
    sensors = native.cpu_sensors(tmp_path)
    file = tmp_path / "sys/class/hwmon/hwmon0/temp1_input"
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    assert without_rights(lambda: sensors.read().temperature_c == 40.0)
    file.chmod(0)
    assert without_rights(lambda: sensors.read().temperature_c is None)


def test_files_that_vanish_and_return(tmp_path: Path) -> None:
    monitor(tmp_path, 0, "coretemp", temp1_input="40000")
    sensors = native.cpu_sensors(tmp_path)
    assert sensors.read().temperature_c == 40.0
    file = tmp_path / "sys/class/hwmon/hwmon0/temp1_input"
    file.unlink()
    assert sensors.read().temperature_c is None
    file.write_text("41000\n")
    assert sensors.read().temperature_c == 41.0
