"""Sensors: trees of sysfs as real machines have them, and broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tunableop_native_tests as native
from sensor_trees import frequency, missing, monitor, put

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

GARBAGE = ["", "abc", "99999999999999999999999999999999", "1e308", "-1e999", "nan", "inf", "45000 46000",
           "45000x", "-274000", "0x1002", "4" * 10_000, "\x00\x01\xff"]  # fmt: skip


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


@pytest.mark.parametrize("content", GARBAGE)
def test_garbage_of_an_amd_card_is_no_reading(tmp_path: Path, content: str) -> None:
    card(tmp_path, 0, temp1_input=content, temp1_label="edge", freq1_input=content, freq1_label="sclk")
    put(tmp_path, {"sys/class/drm/card0/device/pp_dpm_sclk": content + "*"})
    put(tmp_path, {"sys/class/drm/card0/device/mem_info_vram_total": content})
    sensors = native.amd_sensors(0, tmp_path)
    state = sensors.read()
    assert state.temperature_c is None
    assert state.clock_mhz is None
    assert len(sensors.missing()) == 3


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
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    monitor(tmp_path, 0, "coretemp", temp1_input="40000")
    (tmp_path / "sys/class/hwmon/hwmon0/temp1_input").chmod(0)
    assert native.cpu_sensors(tmp_path).read().temperature_c is None


def test_files_that_vanish_and_return(tmp_path: Path) -> None:
    monitor(tmp_path, 0, "coretemp", temp1_input="40000")
    sensors = native.cpu_sensors(tmp_path)
    assert sensors.read().temperature_c == 40.0
    file = tmp_path / "sys/class/hwmon/hwmon0/temp1_input"
    file.unlink()
    assert sensors.read().temperature_c is None
    file.write_text("41000\n")
    assert sensors.read().temperature_c == 41.0


# ---- AMD GPUs -----------------------------------------------------------------------------------


def card(root: Path, index: int, vendor: str = "0x1002", **monitor_files: str) -> None:
    device = f"sys/class/drm/card{index}/device"
    put(root, {f"{device}/vendor": vendor, f"{device}/hwmon/hwmon{index + 3}/name": "amdgpu"})
    put(root, {f"{device}/hwmon/hwmon{index + 3}/{name}": value for name, value in monitor_files.items()})


def test_amdgpu(tmp_path: Path) -> None:
    card(
        tmp_path, 0,
        temp1_input="48000", temp1_label="edge", temp2_input="61000", temp2_label="junction",
        temp3_input="58000", temp3_label="mem",
        freq1_input="2371000000", freq1_label="sclk", freq2_input="1124000000", freq2_label="mclk",
    )  # fmt: skip
    (tmp_path / "sys/class/drm/card0-DP-1").mkdir()
    put(tmp_path, {"sys/class/drm/card0/device/mem_info_vram_total": str(64 << 30)})
    put(tmp_path, {"sys/class/drm/card0/device/mem_info_vram_used": str(12 << 30)})
    sensors = native.amd_sensors(0, tmp_path)
    state = sensors.read()
    assert state.temperature_c == 48.0
    assert state.clock_mhz == pytest.approx(2371.0)
    assert state.memory_fragmentation is None
    (line,) = sensors.missing()
    assert line.startswith("memory fragmentation: ")
    assert "12.0 of 64.0 GiB" in line


def test_cards_of_other_vendors_are_not_counted(tmp_path: Path) -> None:
    card(tmp_path, 0, vendor="0x8086", temp1_input="30000")
    card(tmp_path, 2, temp1_input="42000")
    card(tmp_path, 10, temp1_input="50000")
    readings = [native.amd_sensors(index, tmp_path).read().temperature_c for index in range(-1, 3)]
    assert readings == [None, 42.0, 50.0, None]
    assert "no card 2 of vendor 0x1002" in str(missing(native.amd_sensors(2, tmp_path), "clock"))


def test_a_data_centre_card_has_a_junction_only(tmp_path: Path) -> None:
    card(tmp_path, 0, temp2_input="66000", temp2_label="junction", temp3_input="70000", temp3_label="mem")
    assert native.amd_sensors(0, tmp_path).read().temperature_c == 66.0


@pytest.mark.parametrize(
    ("table", "mhz"),
    [
        ("0: 132Mhz \n1: 1800Mhz *\n2: 2100Mhz ", 1800.0),
        ("0: 500Mhz *\n1: 1800Mhz", 500.0),
        ("S: 19Mhz *", 19.0),
        ("0: 500Mhz\n1: 1800Mhz", None),
        ("*", None),
        (": *", None),
        ("0: Mhz *", None),
        ("0: 999999999Mhz *", None),
    ],
)
def test_the_table_of_clocks(tmp_path: Path, table: str, mhz: float | None) -> None:
    card(tmp_path, 0)
    put(tmp_path, {"sys/class/drm/card0/device/pp_dpm_sclk": table})
    assert native.amd_sensors(0, tmp_path).read().clock_mhz == mhz
