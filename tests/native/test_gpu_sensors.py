"""Sensors of AMD's cards: trees of sysfs as the amdgpu driver makes them, and broken ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tunableop_native_tests as native
from sensor_trees import GARBAGE, missing, put, without_rights

AMD = 0x1002
READINGS = ["temperature", "clock", "power", "free memory", "throttled", "memory fragmentation"]
GIB = 1 << 30


@pytest.fixture(autouse=True)
def _no_other_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNABLEOP_SENSORS_ROOT", raising=False)


def card(root: Path, index: int, vendor: str = "0x1002", bus: str = "", **monitor_files: str) -> Path:
    """A card of /sys/class/drm. With `bus` as in life: a link into the tree of devices."""
    device = root / (f"sys/devices/pci0000:00/{bus}" if bus else f"sys/class/drm/card{index}/device")
    device.mkdir(parents=True)
    if bus:
        (root / f"sys/class/drm/card{index}").mkdir(parents=True)
        (root / f"sys/class/drm/card{index}/device").symlink_to(device)
    put(device, {"vendor": vendor, f"hwmon/hwmon{index + 3}/name": "amdgpu"})
    put(device, {f"hwmon/hwmon{index + 3}/{name}": value for name, value in monitor_files.items()})
    return device


def whole_card(root: Path, bus: str = "0000:03:00.0") -> Path:
    """All that a data-centre card tells."""
    device = card(
        root, 1, bus=bus,
        temp1_input="48000", temp1_label="edge", temp1_crit="100000",
        temp2_input="61000", temp2_label="junction", temp2_crit="110000",
        temp3_input="58000", temp3_label="mem",
        freq1_input="2371000000", freq1_label="sclk", freq2_input="1124000000", freq2_label="mclk",
        power1_average="142000000",
    )  # fmt: skip
    put(device, {"mem_info_vram_total": str(64 * GIB), "mem_info_vram_used": str(12 * GIB)})
    put(device, {"power_dpm_force_performance_level": "auto"})
    put(device, {"current_compute_partition": "SPX", "current_memory_partition": "NPS1"})
    return device


def test_a_card_by_number(tmp_path: Path) -> None:
    whole_card(tmp_path)
    (tmp_path / "sys/class/drm/card1-DP-1").mkdir()
    sensors = native.amd_sensors(0, tmp_path)
    state = sensors.read()
    assert state.temperature_c == 48.0
    assert state.clock_mhz == pytest.approx(2371.0)
    assert state.power_w == pytest.approx(142.0)
    assert state.free_memory_bytes == 52 * GIB
    assert state.throttled == ""
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


# ---- by address ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", ["drm", "pci"])
def test_a_card_by_address(tmp_path: Path, tree: str) -> None:
    card(tmp_path, 0, bus="0000:c3:00.0", temp1_input="39000")
    device = whole_card(tmp_path, bus="0000:c4:00.0")
    if tree == "pci":
        (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
        (tmp_path / "sys/bus/pci/devices/0000:c4:00.0").symlink_to(device)
        for index in (0, 1):
            (tmp_path / f"sys/class/drm/card{index}/device").unlink()
    for name in ("0000:c4:00.0", "0000:C4:00.0"):
        state = native.amd_sensors_at(name, tmp_path).read()
        assert (state.temperature_c, state.power_w) == (48.0, pytest.approx(142.0))
    if tree == "drm":
        assert native.gpu_sensors(AMD, "0000:c3:00.0", tmp_path).read().temperature_c == 39.0


@pytest.mark.parametrize("name", ["", "0000:05:00.0", "..", "../0000:03:00.0", "0000:03:00.0/..", "03", "\0"])
def test_no_card_of_such_an_address(tmp_path: Path, name: str) -> None:
    device = whole_card(tmp_path)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:03:00.0").symlink_to(device)
    sensors = native.amd_sensors_at(name, tmp_path)
    state = sensors.read()
    assert (state.temperature_c, state.power_w, state.throttled) == (None, None, None)
    assert [line.split(":")[0] for line in sensors.missing()] == READINGS
    assert native.partition_mode(AMD, name, tmp_path) == ""


def test_an_address_of_another_vendor(tmp_path: Path) -> None:
    card(tmp_path, 0, vendor="0x8086", bus="0000:03:00.0", temp1_input="39000")
    assert native.amd_sensors_at("0000:03:00.0", tmp_path).read().temperature_c is None


def test_no_sensors_for_other_vendors(tmp_path: Path) -> None:
    assert native.gpu_sensors(0x8086, "0000:03:00.0", tmp_path) is None
    assert native.partition_mode(0x8086, "0000:03:00.0", tmp_path) == ""


# ---- readings -----------------------------------------------------------------------------------


def test_a_card_with_a_junction_only(tmp_path: Path) -> None:
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
    put(card(tmp_path, 0), {"pp_dpm_sclk": table})
    assert native.amd_sensors(0, tmp_path).read().clock_mhz == mhz


@pytest.mark.parametrize(
    ("files", "watts"),
    [
        ({"power1_input": "75000000"}, 75.0),
        ({"power1_average": "80000000", "power1_input": "75000000"}, 80.0),
        ({"power1_average": "x", "power1_input": "75000000"}, 75.0),
        ({"power1_average": "0"}, 0.0),
        ({"power1_average": "-5"}, None),
        ({}, None),
    ],
)
def test_power(tmp_path: Path, files: dict[str, str], watts: float | None) -> None:
    card(tmp_path, 0, **files)
    sensors = native.amd_sensors(0, tmp_path)
    assert sensors.read().power_w == watts
    assert (missing(sensors, "power") is None) == (watts is not None)


@pytest.mark.parametrize(
    ("total", "used", "free"),
    [("100", "40", 60), ("100", "100", 0), ("100", "101", None), ("-1", "-2", None), ("100", "nan", None)],
)
def test_free_memory(tmp_path: Path, total: str, used: str, free: int | None) -> None:
    put(card(tmp_path, 0), {"mem_info_vram_total": total, "mem_info_vram_used": used})
    assert native.amd_sensors(0, tmp_path).read().free_memory_bytes == free


@pytest.mark.parametrize(
    ("level", "junction", "reasons"),
    [
        ("auto", "109000", ""),
        ("auto", "110000", "thermal limit"),
        ("low", "60000", "performance level low"),
        ("profile_min_sclk", "111000", "thermal limit, performance level profile_min_sclk"),
        ("manual", "60000", ""),
        ("something new", "60000", ""),
        ("", "110000", "thermal limit"),
        ("auto", "garbage", ""),
        ("something new", "garbage", None),
    ],
)
def test_throttling(tmp_path: Path, level: str, junction: str, reasons: str | None) -> None:
    device = card(tmp_path, 0, temp2_input=junction, temp2_label="junction", temp2_crit="110000")
    put(device, {"power_dpm_force_performance_level": level})
    sensors = native.amd_sensors(0, tmp_path)
    assert sensors.read().throttled == reasons
    assert (missing(sensors, "throttled") is None) == (reasons is not None)


@pytest.mark.parametrize(
    ("compute", "memory", "mode"),
    [
        ("SPX", "NPS1", "SPX/NPS1"),
        ("CPX", "NPS4", "CPX/NPS4"),
        ("SPX", None, "SPX"),
        (None, "NPS1", "NPS1"),
        (None, None, ""),
        ("SPX, DPX", "\x01", ""),
        ("S" * 100, "NPS1", "NPS1"),
    ],
)
def test_partitions(tmp_path: Path, compute: str | None, memory: str | None, mode: str) -> None:
    device = card(tmp_path, 0, bus="0000:03:00.0")
    for kind, value in (("compute", compute), ("memory", memory)):
        if value is not None:
            put(device, {f"current_{kind}_partition": value})
    assert native.partition_mode(AMD, "0000:03:00.0", tmp_path) == mode


# ---- content that nobody expects ----------------------------------------------------------------


@pytest.mark.parametrize("content", GARBAGE)
def test_garbage_is_no_reading(tmp_path: Path, content: str) -> None:
    device = card(
        tmp_path, 0,
        temp1_input=content, temp1_label="edge", temp1_crit=content, freq1_input=content, freq1_label="sclk",
        power1_average=content, power1_input="x",
    )  # fmt: skip
    put(device, {"pp_dpm_sclk": content + "*", "mem_info_vram_total": content, "mem_info_vram_used": "1"})
    put(device, {"power_dpm_force_performance_level": content, "current_compute_partition": content})
    sensors = native.amd_sensors(0, tmp_path)
    state = sensors.read()
    readings = [state.temperature_c, state.clock_mhz, state.power_w, state.free_memory_bytes, state.throttled]
    assert readings == [None] * 5
    assert [line.split(":")[0] for line in sensors.missing()] == READINGS


def test_folders_and_pipes_in_the_place_of_files(tmp_path: Path) -> None:
    device = whole_card(tmp_path)
    for path in [path for path in device.rglob("*") if path.is_file() and path.name != "vendor"]:
        path.unlink()
        if len(path.name) % 2:
            path.mkdir()
        else:
            os.mkfifo(path)  # reading it would wait for ever
    sensors = native.amd_sensors_at("0000:03:00.0", tmp_path)
    state = sensors.read()
    readings = [state.temperature_c, state.clock_mhz, state.power_w, state.free_memory_bytes, state.throttled]
    assert readings == [None] * 5
    assert native.partition_mode(AMD, "0000:03:00.0", tmp_path) == ""


def test_files_that_may_not_be_read(tmp_path: Path) -> None:
    device = whole_card(tmp_path)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    sensors = native.amd_sensors_at("0000:03:00.0", tmp_path)

    def whole() -> bool:
        return len(sensors.missing()) == 1 and sensors.read().throttled == ""

    def nothing() -> bool:
        state = sensors.read()
        return len(sensors.missing()) == 6 and state.power_w is None and state.throttled is None

    assert without_rights(whole)
    for path in device.rglob("*"):
        if path.is_file():
            path.chmod(0)
    assert without_rights(nothing)


def test_files_that_vanish_and_return(tmp_path: Path) -> None:
    device = whole_card(tmp_path)
    sensors = native.amd_sensors_at("0000:03:00.0", tmp_path)
    file = device / "hwmon/hwmon4/power1_average"
    file.unlink()
    assert sensors.read().power_w is None
    file.write_text("90000000\n")
    assert sensors.read().power_w == pytest.approx(90.0)
