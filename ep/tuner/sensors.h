// The state of a device that a measurement depends on beside the problem: temperature, clocks,
// fragmentation of its memory. Every source may be missing: that is normal, and has a reason.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tunableop {

struct MachineState {
  std::optional<double> temperature_c;
  std::optional<double> clock_mhz;             // at present
  std::optional<double> memory_fragmentation;  // share of the free device memory, 0 to 1
};

// Thread-safe.
class Sensors {
 public:
  virtual ~Sensors() = default;
  // Reads files or asks a vendor library: up to milliseconds. Never on the hot path.
  virtual MachineState Read() const noexcept = 0;
  // "clock: no cpufreq in /sys/devices/system/cpu": a line for each reading that this machine does
  // not give.
  virtual std::vector<std::string> Missing() const = 0;
};

// Temperature: the hottest package that the drivers coretemp, k10temp and zenpower know (hwmon),
// else the hottest thermal zone of a processor. Clock: the mean of cpufreq's scaling_cur_freq over
// the processors that this process may use, else of "cpu MHz" in /proc/cpuinfo. An idle processor
// lowers its clock, and many virtual machines report one fixed clock, or none.
// All below `root`. The environment variable TUNABLEOP_SENSORS_ROOT, read in this call, takes the
// place of "/": for tests.
std::unique_ptr<Sensors> CpuSensors(const std::filesystem::path& root = "/");

// Temperature and SM clock from NVML; `index` as nvidia-smi counts (PCI order), which
// CUDA_VISIBLE_DEVICES does not change. libnvidia-ml.so.1 is loaded in this call;
// TUNABLEOP_NVML_LIBRARY names another file. An idle GPU lowers its clock (an H200 from 1980 to 345
// MHz).
std::unique_ptr<Sensors> NvidiaSensors(int index);

// Temperature and shader clock (sclk) from the files of the amdgpu driver below `root`, as with
// CpuSensors; `index` counts the cards of vendor 0x1002 in the order of /sys/class/drm.
std::unique_ptr<Sensors> AmdSensors(int index, const std::filesystem::path& root = "/");

}  // namespace tunableop
