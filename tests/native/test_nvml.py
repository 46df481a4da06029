"""NVML, as a library that is built here plays it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tunableop_native_tests as native
from sensor_trees import missing

NVML = r"""
#include <stddef.h>
#include <string.h>
int users = 0;
int nvmlInit_v2(void) { if (INIT_FAILS) return 9; ++users; return 0; }
int nvmlShutdown(void) { --users; return 0; }
const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : code == 3 ? "Not Supported"
       : code == 2 ? "Invalid Argument" : code == 6 ? "Not Found" : NULL;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (users != 1) return 1;
  if (index >= 2) return 2;
  *device = (char*)0 + 100 + index;
  return 0;
}
#ifndef NO_BUS_ID
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  static const char* known[] = {"0000:00:06.0", "0000:0a:00.0"};
  for (unsigned i = 0; i < 2; ++i) {
    if (strcmp(id, known[i]) == 0) return nvmlDeviceGetHandleByIndex_v2(i, device);
  }
  return 6;
}
#endif
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (sensor != 0) return 2;
  *celsius = TEMPERATURE + (unsigned)((char*)device - (char*)0) - 100;
  return 0;
}
#ifndef NO_CLOCK
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
  (void)device;
  if (clock != 1) return 2;
  if (CLOCK_FAILS) return CLOCK_FAILS;
  *mhz = 1980;
  return 0;
}
#endif
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  (void)device;
  *milliwatts = POWER;
  return 0;
}
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void* device, struct memory* memory) {
  (void)device;
  memory->total = 1000;
  memory->free = FREE;
  memory->used = 1000 - FREE;
  return 0;
}
#ifndef NO_REASONS
int REASONS_NAME(void* device, unsigned long long* reasons) {
  (void)device;
  *reasons = REASONS;
  return 0;
}
#endif
#ifndef NO_MIG
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  (void)device;
  *pending = 1;
  *current = MIG == 2 ? 0 : MIG;
  return MIG == 2 ? 3 : 0;
}
#endif
"""
READINGS = ["temperature", "clock", "power", "free memory", "throttled", "memory fragmentation"]
NVIDIA = 0x10DE


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Builds a library that looks like NVML, with faults, and has it loaded."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to build a make-believe NVML with")

    def build(**values: str) -> Path:
        source = tmp_path / "nvml.c"
        source.write_text(NVML)
        library = tmp_path / "libmake-believe-nvml.so"
        defined = {
            "INIT_FAILS": "0",
            "TEMPERATURE": "41",
            "CLOCK_FAILS": "0",
            "POWER": "612345",
            "FREE": "400",
        }
        defined |= {
            "REASONS": "0",
            "REASONS_NAME": "nvmlDeviceGetCurrentClocksEventReasons",
            "MIG": "0",
        } | values
        options = [f"-D{name}={value}" for name, value in defined.items()]
        command = [compiler, "-shared", "-fPIC", *options, "-o", str(library), str(source)]
        subprocess.run(command, check=True, timeout=60)
        monkeypatch.setenv("TUNABLEOP_NVML_LIBRARY", str(library))
        return library

    return build


def test_nvml(nvml: Callable[..., Path]) -> None:
    nvml()
    sensors = native.nvidia_sensors(0)
    state = sensors.read()
    assert (state.temperature_c, state.clock_mhz) == (41.0, 1980.0)
    assert state.power_w == pytest.approx(612.345)
    assert state.free_memory_bytes == 400
    assert state.throttled == ""
    assert state.memory_fragmentation is None
    (line,) = sensors.missing()
    assert line.startswith("memory fragmentation: ")


@pytest.mark.parametrize(("name", "celsius"), [("0000:00:06.0", 41.0), ("0000:0A:00.0", 42.0)])
def test_a_gpu_by_address(nvml: Callable[..., Path], name: str, celsius: float) -> None:
    nvml()
    assert native.nvidia_sensors_at(name).read().temperature_c == celsius
    assert native.gpu_sensors(NVIDIA, name).read().temperature_c == celsius


@pytest.mark.parametrize("name", ["0000:07:00.0", "", "GPU-0", "..:"])
def test_no_gpu_of_such_an_address(nvml: Callable[..., Path], name: str) -> None:
    nvml()
    sensors = native.nvidia_sensors_at(name)
    assert sensors.read().temperature_c is None
    assert name in str(missing(sensors, "power"))
    assert [line.split(":")[0] for line in sensors.missing()] == READINGS
    assert native.partition_mode(NVIDIA, name) == ""


def test_an_nvml_that_knows_no_addresses(nvml: Callable[..., Path]) -> None:
    library = nvml(NO_BUS_ID="1")
    reason = missing(native.nvidia_sensors_at("0000:00:06.0"), "clock")
    assert reason == f"clock: GPU 0000:00:06.0: {library} has no symbol nvmlDeviceGetHandleByPciBusId_v2"
    assert native.partition_mode(NVIDIA, "0000:00:06.0") == ""


@pytest.mark.parametrize("function", ["EventReasons", "ThrottleReasons"])
@pytest.mark.parametrize(
    ("bits", "words"),
    [
        ("0x0", ""),
        ("0x103", ""),  # idle, set clocks, display clocks
        ("0x5", "power cap"),
        ("0x68", "hardware slowdown, thermal slowdown by the driver, thermal slowdown by the hardware"),
        ("0x90", "sync boost, power brake"),
        ("0x8000000000000000", ""),
    ],
)
def test_reasons_for_low_clocks(nvml: Callable[..., Path], function: str, bits: str, words: str) -> None:
    nvml(REASONS=f"{bits}ull", REASONS_NAME=f"nvmlDeviceGetCurrentClocks{function}")
    assert native.nvidia_sensors(0).read().throttled == words


def test_an_nvml_that_gives_no_reasons(nvml: Callable[..., Path]) -> None:
    library = nvml(NO_REASONS="1")
    sensors = native.nvidia_sensors(0)
    assert sensors.read().throttled is None
    assert str(library) in str(missing(sensors, "throttled"))


@pytest.mark.parametrize(
    ("values", "mode"), [({"MIG": "1"}, "mig"), ({"MIG": "0"}, ""), ({"MIG": "2"}, ""), ({"NO_MIG": "1"}, "")]
)
def test_mig(nvml: Callable[..., Path], values: dict[str, str], mode: str) -> None:
    nvml(**values)
    assert native.partition_mode(NVIDIA, "0000:00:06.0") == mode


def test_each_user_of_nvml_leaves(nvml: Callable[..., Path]) -> None:
    held = ctypes.CDLL(str(nvml()))  # so that unloading does not wipe the count
    users = ctypes.c_int.in_dll(held, "users")
    sensors = native.nvidia_sensors(1)
    assert users.value == 1
    assert sensors.read().temperature_c == 42.0
    del sensors
    assert users.value == 0
    native.nvidia_sensors(2)  # no such GPU
    assert users.value == 0


@pytest.mark.parametrize("index", [2, -1])
def test_nvml_without_such_a_gpu(nvml: Callable[..., Path], index: int) -> None:
    nvml()
    sensors = native.nvidia_sensors(index)
    assert sensors.read().temperature_c is None
    assert f"GPU {index}" in str(missing(sensors, "temperature"))
    assert [line.split(":")[0] for line in sensors.missing()] == READINGS


@pytest.mark.parametrize(("code", "words"), [("3", "Not Supported"), ("999", "error 999")])
def test_nvml_without_a_clock(nvml: Callable[..., Path], code: str, words: str) -> None:
    nvml(CLOCK_FAILS=code)
    sensors = native.nvidia_sensors(0)
    state = sensors.read()
    assert (state.temperature_c, state.clock_mhz) == (41.0, None)
    assert missing(sensors, "clock") == f"clock: nvmlDeviceGetClockInfo: {words}"


def test_nvml_says_what_cannot_be(nvml: Callable[..., Path]) -> None:
    nvml(TEMPERATURE="4000000000u")
    sensors = native.nvidia_sensors(0)
    assert sensors.read().temperature_c is None
    assert "4000000000" in str(missing(sensors, "temperature"))


def test_nvml_says_of_power_and_memory_what_cannot_be(nvml: Callable[..., Path]) -> None:
    nvml(POWER="4000000000u", FREE="1001")
    sensors = native.nvidia_sensors(0)
    state = sensors.read()
    assert (state.power_w, state.free_memory_bytes) == (None, None)
    assert "4000000" in str(missing(sensors, "power"))
    assert "1001 of 1000" in str(missing(sensors, "free memory"))


def test_nvml_without_its_driver(nvml: Callable[..., Path]) -> None:
    nvml(INIT_FAILS="1")
    assert missing(native.nvidia_sensors(), "clock") == "clock: nvmlInit_v2: Driver Not Loaded"


def test_nvml_lacks_a_symbol(nvml: Callable[..., Path]) -> None:
    library = nvml(NO_CLOCK="1")
    sensors = native.nvidia_sensors()
    assert missing(sensors, "clock") == f"clock: {library} has no symbol nvmlDeviceGetClockInfo"
    assert sensors.read().temperature_c == 41.0


def test_no_nvml_is_normal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "absent.so", tmp_path):
        monkeypatch.setenv("TUNABLEOP_NVML_LIBRARY", str(path))
        sensors = native.nvidia_sensors()
        assert sensors.read().temperature_c is None
        assert str(path) in str(missing(sensors, "temperature"))
        assert [line.split(":")[0] for line in sensors.missing()] == READINGS
