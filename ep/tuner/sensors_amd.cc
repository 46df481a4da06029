#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

#include "tuner/gpu_sensors.h"
#include "tuner/sensor_files.h"
#include "tuner/sensors.h"

namespace tunableop {
namespace {

namespace fs = std::filesystem;
using sensor_files::Numbered;
using sensor_files::ReadCelsius;
using sensor_files::ReadNumber;
using sensor_files::ReadText;

// PCI's vendor id, as sysfs writes it.
constexpr std::string_view kAmd = "0x1002";
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kMostBytes = 1e18;

// The folder of the device behind the card; empty: no such card.
fs::path FindCard(int index, const fs::path& drm) {
  int seen = 0;
  for (const fs::path& card : Numbered(drm, "card")) {
    if (ReadText(card / "device/vendor") != kAmd) continue;
    if (seen++ == index) return card / "device";
  }
  return {};
}

// The same by address. In a container one of the two trees may be missing.
fs::path FindCardAt(const std::string& pci_bus_id, const fs::path& drm, const fs::path& pci) {
  if (pci_bus_id.empty()) return {};
  if (ReadText(pci / pci_bus_id / "vendor") == kAmd) return pci / pci_bus_id;
  for (const fs::path& card : Numbered(drm, "card")) {
    std::error_code error;
    const fs::path device = fs::canonical(card / "device", error);
    if (error || device.filename() != pci_bus_id) continue;
    if (ReadText(device / "vendor") == kAmd) return card / "device";
  }
  return {};
}

// "temp2_input" whose "temp2_label" says `label`; empty: none.
fs::path Labelled(const fs::path& monitor, std::string_view kind, std::string_view label) {
  for (const fs::path& file : Numbered(monitor, kind, "_label")) {
    if (ReadText(file) != label) continue;
    std::string name = file.filename().string();
    name.replace(name.rfind("_label"), std::string::npos, "_input");
    return monitor / name;
  }
  return {};
}

// The line with the star in "0: 500Mhz\n1: 1800Mhz *".
std::optional<double> StarredMhz(const std::string& table) {
  const size_t star = table.find('*');
  if (star == std::string::npos) return std::nullopt;
  const size_t newline = table.rfind('\n', star);
  const size_t begin = newline == std::string::npos ? 0 : newline + 1;
  const size_t colon = table.find(':', begin);
  if (colon == std::string::npos || colon > star) return std::nullopt;
  size_t digit = colon + 1;
  while (digit < star && table[digit] == ' ') ++digit;
  double mhz = 0.0;
  const auto parsed = std::from_chars(table.data() + digit, table.data() + star, mhz);
  if (parsed.ec != std::errc()) return std::nullopt;
  if (mhz >= sensor_files::kLowestMhz && mhz <= sensor_files::kHighestMhz) return mhz;
  return std::nullopt;
}

class AmdSensorsImpl final : public sensor_files::FileSensors {
 public:
  // `device`: the folder of the card; empty: there is none, as `reason` says.
  AmdSensorsImpl(fs::path device, std::string reason)
      : device_(std::move(device)),
        reason_(std::move(reason)),
        monitors_(device_.empty() ? std::vector<fs::path>()
                                  : Numbered(device_ / "hwmon", "hwmon")) {}

  std::vector<std::string> Missing() const override {
    if (device_.empty()) return gpu_sensors::AllMissing(reason_);
    std::vector<std::string> lines;
    const std::string hwmon = (device_ / "hwmon").string();
    if (!Temperature()) lines.push_back("temperature: neither edge nor junction in " + hwmon);
    if (!Clock()) {
      lines.push_back("clock: neither sclk in " + hwmon + " nor a current line in " +
                      (device_ / "pp_dpm_sclk").string());
    }
    if (!Power()) {
      lines.push_back("power: neither power1_average nor power1_input in " + hwmon);
    }
    if (!FreeMemory()) {
      lines.push_back("free memory: no mem_info_vram_total and mem_info_vram_used in " +
                      device_.string());
    }
    if (!Throttled()) {
      lines.push_back("throttled: neither a limit of temperature in " + hwmon + " nor " +
                      (device_ / "power_dpm_force_performance_level").string());
    }
    lines.push_back("memory fragmentation: sysfs says how much is used" + MemoryUse() +
                    ", not how the free part is cut up");
    return lines;
  }

 private:
  void ReadInto(MachineState& state) const override {
    state.temperature_c = Temperature();
    state.clock_mhz = Clock();
    state.power_w = Power();
    state.free_memory_bytes = FreeMemory();
    state.throttled = Throttled();
  }

  // The first of several files of the monitors that holds a plausible number.
  template <typename Read>
  std::optional<double> First(Read read) const {
    for (const fs::path& monitor : monitors_) {
      if (const std::optional<double> value = read(monitor)) return value;
    }
    return std::nullopt;
  }

  std::optional<double> Temperature() const {
    return First([](const fs::path& monitor) -> std::optional<double> {
      // Old drivers have one sensor, that of the edge, and no label.
      for (const fs::path& input :
           {Labelled(monitor, "temp", "edge"), Labelled(monitor, "temp", "junction"),
            monitor / "temp1_input"}) {
        if (input.empty()) continue;
        if (const std::optional<double> celsius = ReadCelsius(input)) return celsius;
      }
      return std::nullopt;
    });
  }

  std::optional<double> Clock() const {
    const std::optional<double> mhz = First([](const fs::path& monitor) {
      fs::path input = Labelled(monitor, "freq", "sclk");
      if (input.empty()) input = monitor / "freq1_input";
      return ReadNumber(input, 1e-6, sensor_files::kLowestMhz, sensor_files::kHighestMhz);
    });
    if (mhz || device_.empty()) return mhz;
    const std::optional<std::string> table = ReadText(device_ / "pp_dpm_sclk");
    return table ? StarredMhz(*table) : std::nullopt;
  }

  // In microwatts. Newer cards report the present power only.
  std::optional<double> Power() const {
    return First([](const fs::path& monitor) {
      const std::optional<double> average =
          ReadNumber(monitor / "power1_average", 1e-6, 0.0, sensor_files::kHighestWatts);
      if (average) return average;
      return ReadNumber(monitor / "power1_input", 1e-6, 0.0, sensor_files::kHighestWatts);
    });
  }

  std::optional<uint64_t> FreeMemory() const {
    if (device_.empty()) return std::nullopt;
    const auto total = ReadNumber(device_ / "mem_info_vram_total", 1.0, 0.0, kMostBytes);
    const auto used = ReadNumber(device_ / "mem_info_vram_used", 1.0, 0.0, kMostBytes);
    if (!total || !used || *used > *total) return std::nullopt;
    return static_cast<uint64_t>(*total - *used);
  }

  std::optional<std::string> Throttled() const {
    if (device_.empty()) return std::nullopt;
    std::optional<std::string> reasons;
    for (const fs::path& monitor : monitors_) {
      for (const fs::path& limit : Numbered(monitor, "temp", "_crit")) {
        std::string input = limit.filename().string();
        input.replace(input.rfind("_crit"), std::string::npos, "_input");
        const std::optional<double> highest = ReadCelsius(limit);
        const std::optional<double> now = ReadCelsius(monitor / input);
        if (!highest || !now || *highest <= 0.0) continue;
        if (!reasons) reasons.emplace();
        if (*now >= *highest && reasons->empty()) *reasons = "thermal limit";
      }
    }
    const std::optional<std::string> level =
        ReadText(device_ / "power_dpm_force_performance_level");
    // What the driver's documentation names; what it does not is garbage.
    constexpr std::array<std::string_view, 9> kLevels = {"low",
                                                         "profile_min_sclk",
                                                         "profile_min_mclk",
                                                         "auto",
                                                         "high",
                                                         "manual",
                                                         "profile_standard",
                                                         "profile_peak",
                                                         "perf_determinism"};
    constexpr size_t kSlow = 3;  // the first
    const auto* const found =
        level ? std::find(kLevels.begin(), kLevels.end(), *level) : kLevels.end();
    if (found == kLevels.end()) return reasons;
    if (!reasons) reasons.emplace();
    if (found < kLevels.begin() + kSlow) {
      *reasons += (reasons->empty() ? "" : ", ") + std::string("performance level ") + *level;
    }
    return reasons;
  }

  // " (12.3 of 64.0 GiB)", or nothing.
  std::string MemoryUse() const {
    constexpr double kMost = 1e6;  // GiB
    const auto total = ReadNumber(device_ / "mem_info_vram_total", 1 / kGiB, 0.0, kMost);
    const auto used = ReadNumber(device_ / "mem_info_vram_used", 1 / kGiB, 0.0, kMost);
    if (!total || !used) return "";
    char text[64];
    std::snprintf(text, sizeof(text), " (%.1f of %.1f GiB)", *used, *total);
    return text;
  }

  const fs::path device_;
  const std::string reason_;
  const std::vector<fs::path> monitors_;
};

}  // namespace

std::unique_ptr<Sensors> AmdSensors(int index, const fs::path& root) {
  const fs::path drm = sensor_files::RootOr(root) / "sys/class/drm";
  return std::make_unique<AmdSensorsImpl>(
      FindCard(index, drm),
      "no card " + std::to_string(index) + " of vendor 0x1002 in " + drm.string());
}

std::unique_ptr<Sensors> AmdSensorsAt(const std::string& pci_bus_id, const fs::path& root) {
  const fs::path sys = sensor_files::RootOr(root) / "sys";
  const std::string id = gpu_sensors::BusId(pci_bus_id);
  return std::make_unique<AmdSensorsImpl>(
      FindCardAt(id, sys / "class/drm", sys / "bus/pci/devices"),
      "no card '" + pci_bus_id + "' of vendor 0x1002 in " + (sys / "class/drm").string() + " and " +
          (sys / "bus/pci/devices").string());
}

namespace gpu_sensors {

std::string AmdPartition(const std::string& pci_bus_id, const fs::path& root) {
  const fs::path sys = sensor_files::RootOr(root) / "sys";
  const fs::path device = FindCardAt(BusId(pci_bus_id), sys / "class/drm", sys / "bus/pci/devices");
  if (device.empty()) return "";
  const auto mode = [&](const char* file) {
    const std::string text = ReadText(device / file, 64).value_or("");
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    });
    return plain ? text : std::string();
  };
  const std::string compute = mode("current_compute_partition");
  const std::string memory = mode("current_memory_partition");
  return compute + (compute.empty() || memory.empty() ? "" : "/") + memory;
}

}  // namespace gpu_sensors

}  // namespace tunableop
