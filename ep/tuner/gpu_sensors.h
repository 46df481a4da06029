// What the sensors of the vendors share; for sensors_*.cc only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tunableop::gpu_sensors {

// In lower case, as sysfs names it; empty when it is no address ("0000:03:00.0"): it becomes part
// of a path.
std::string BusId(const std::string& pci_bus_id);

// A line of Sensors::Missing() for every reading of a card.
std::vector<std::string> AllMissing(const std::string& reason);

// PartitionMode() of one vendor.
std::string NvidiaPartition(const std::string& pci_bus_id);
std::string AmdPartition(const std::string& pci_bus_id, const std::filesystem::path& root);

}  // namespace tunableop::gpu_sensors
