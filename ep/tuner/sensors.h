// The state of a device that a measurement depends on beside the problem: temperature, clocks,
// power, its memory. Every source may be missing: that is normal, and has a reason.
#pragma once

#include <cstdint>
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
  // Of cards only:
  std::optional<double> power_w;
  std::optional<uint64_t> free_memory_bytes;
  // Why it runs slower than it could, as far as its driver says: "power cap, hardware slowdown".
  // Empty: nothing slows it down. That it is idle is no reason.
  std::optional<std::string> throttled;
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

// Temperature, SM clock, power, free memory and reasons for low clocks from NVML. libnvidia-ml.so.1
// is loaded in this call; TUNABLEOP_NVML_LIBRARY names another file. An idle GPU lowers its clock
// (an H200 from 1980 to 345 MHz). `index` as nvidia-smi counts (PCI order), which
// CUDA_VISIBLE_DEVICES does not change; `pci_bus_id` as DeviceInfo has it ("0000:00:06.0").
std::unique_ptr<Sensors> NvidiaSensors(int index);
std::unique_ptr<Sensors> NvidiaSensorsAt(const std::string& pci_bus_id);

// Temperature (edge, else junction), shader clock (sclk), power and free memory from the files of
// the amdgpu driver below `root`, as with CpuSensors; no library. As reasons for low clocks: a
// temperature at the limit that the card names, and a performance level that holds the lowest
// clocks; what else the firmware does, sysfs tells in no text. `index` counts the cards of vendor
// 0x1002 in the order of /sys/class/drm; `pci_bus_id` as above.
std::unique_ptr<Sensors> AmdSensors(int index, const std::filesystem::path& root = "/");
std::unique_ptr<Sensors> AmdSensorsAt(const std::string& pci_bus_id,
                                      const std::filesystem::path& root = "/");

// Either, by Device::vendor_id(). Null: of another vendor.
std::unique_ptr<Sensors> GpuSensors(uint32_t vendor_id, const std::string& pci_bus_id,
                                    const std::filesystem::path& root = "/");

// How a card is divided, as that changes which kernel is best on what is left: "mig" (NVIDIA);
// "CPX", "SPX/NPS1" (AMD: compute and memory partition, as far as sysfs tells). Empty: it is not,
// or it is not known. Reads files or loads NVML: milliseconds.
std::string PartitionMode(uint32_t vendor_id, const std::string& pci_bus_id,
                          const std::filesystem::path& root = "/");

}  // namespace tunableop
