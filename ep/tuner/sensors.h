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

// hwmon, thermal zones and cpufreq under `root` (tests give a folder of their own).
std::unique_ptr<Sensors> CpuSensors(const std::filesystem::path& root = "/");
// NVML (libnvidia-ml.so.1, loaded when called); `index` as nvidia-smi counts.
std::unique_ptr<Sensors> NvidiaSensors(int index);
// hwmon of the amdgpu driver under `root`; `index` counts the cards of vendor 0x1002.
std::unique_ptr<Sensors> AmdSensors(int index, const std::filesystem::path& root = "/");

}  // namespace tunableop
