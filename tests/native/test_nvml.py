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
int users = 0;
int nvmlInit_v2(void) { if (INIT_FAILS) return 9; ++users; return 0; }
int nvmlShutdown(void) { --users; return 0; }
const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : code == 3 ? "Not Supported"
       : code == 2 ? "Invalid Argument" : NULL;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (users != 1) return 1;
  if (index >= 2) return 2;
  *device = (char*)0 + 100 + index;
  return 0;
}
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
"""


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
        defined = {"INIT_FAILS": "0", "TEMPERATURE": "41", "CLOCK_FAILS": "0"} | values
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
    assert state.memory_fragmentation is None
    (line,) = sensors.missing()
    assert line.startswith("memory fragmentation: ")


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
    assert len(sensors.missing()) == 3


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


def test_nvml_without_its_driver(nvml: Callable[..., Path]) -> None:
    nvml(INIT_FAILS="1")
    assert missing(native.nvidia_sensors(), "clock") == "clock: nvmlInit_v2: Driver Not Loaded"


def test_nvml_lacks_a_symbol(nvml: Callable[..., Path]) -> None:
    library = nvml(NO_CLOCK="1")
    reason = missing(native.nvidia_sensors(), "clock")
    assert reason == f"clock: {library} has no symbol nvmlDeviceGetClockInfo"


def test_no_nvml_is_normal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "absent.so", tmp_path):
        monkeypatch.setenv("TUNABLEOP_NVML_LIBRARY", str(path))
        sensors = native.nvidia_sensors()
        assert sensors.read().temperature_c is None
        assert str(path) in str(missing(sensors, "temperature"))
        assert len(sensors.missing()) == 3
