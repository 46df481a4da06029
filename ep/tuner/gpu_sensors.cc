#include "tuner/gpu_sensors.h"

#include <cctype>

#include "tuner/sensors.h"

namespace tunableop {

namespace gpu_sensors {

std::string BusId(const std::string& pci_bus_id) {
  std::string id;
  for (const char c : pci_bus_id) {
    const auto byte = static_cast<unsigned char>(c);
    const bool separator = c == ':' || c == '.';
    if (!separator && std::isxdigit(byte) == 0) return "";
    id += static_cast<char>(std::tolower(byte));
  }
  // ".." would be a folder.
  return id.find(':') == std::string::npos || id.find("..") != std::string::npos ? "" : id;
}

std::vector<std::string> AllMissing(const std::string& reason) {
  std::vector<std::string> lines;
  for (const char* what :
       {"temperature", "clock", "power", "free memory", "throttled", "memory fragmentation"}) {
    lines.push_back(std::string(what) + ": " + reason);
  }
  return lines;
}

}  // namespace gpu_sensors

namespace {

// PCI's vendor ids.
constexpr uint32_t kNvidia = 0x10DE;
constexpr uint32_t kAmd = 0x1002;

}  // namespace

std::unique_ptr<Sensors> GpuSensors(uint32_t vendor_id, const std::string& pci_bus_id,
                                    const std::filesystem::path& root) {
  if (vendor_id == kNvidia) return NvidiaSensorsAt(pci_bus_id);
  if (vendor_id == kAmd) return AmdSensorsAt(pci_bus_id, root);
  return nullptr;
}

std::string PartitionMode(uint32_t vendor_id, const std::string& pci_bus_id,
                          const std::filesystem::path& root) {
  if (vendor_id == kNvidia) return gpu_sensors::NvidiaPartition(pci_bus_id);
  if (vendor_id == kAmd) return gpu_sensors::AmdPartition(pci_bus_id, root);
  return "";
}

}  // namespace tunableop
