#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "tuner/sensor_files.h"
#include "tuner/sensors.h"

namespace tunableop {
namespace {

namespace fs = std::filesystem;
using sensor_files::Numbered;
using sensor_files::ReadCelsius;
using sensor_files::ReadNumber;
using sensor_files::ReadText;

// PCI's vendor id.
constexpr std::string_view kAmd = "0x1002";
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// The folder of the device behind the card; empty: no such card.
fs::path FindCard(int index, const fs::path& drm) {
  int seen = 0;
  for (const fs::path& card : Numbered(drm, "card")) {
    if (ReadText(card / "device/vendor") != kAmd) continue;
    if (seen++ == index) return card / "device";
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

class AmdSensorsImpl final : public Sensors {
 public:
  AmdSensorsImpl(int index, const fs::path& root)
      : index_(index),
        drm_(root / "sys/class/drm"),
        device_(FindCard(index, drm_)),
        monitors_(device_.empty() ? std::vector<fs::path>()
                                  : Numbered(device_ / "hwmon", "hwmon")) {}

  MachineState Read() const noexcept override {
    MachineState state;
    try {
      state.temperature_c = Temperature();
      state.clock_mhz = Clock();
    } catch (...) {
      return state;  // out of memory: what was not read is missing
    }
    return state;
  }

  std::vector<std::string> Missing() const override {
    if (device_.empty()) {
      const std::string none = "no card " + std::to_string(index_) + " of vendor 0x1002 in ";
      return {"temperature: " + none + drm_.string(), "clock: " + none + drm_.string(),
              "memory fragmentation: " + none + drm_.string()};
    }
    std::vector<std::string> lines;
    if (!Temperature()) {
      lines.push_back("temperature: neither edge nor junction in " + (device_ / "hwmon").string());
    }
    if (!Clock()) {
      lines.push_back("clock: neither sclk in " + (device_ / "hwmon").string() +
                      " nor a current line in " + (device_ / "pp_dpm_sclk").string());
    }
    lines.push_back("memory fragmentation: sysfs says how much is used" + MemoryUse() +
                    ", not how the free part is cut up");
    return lines;
  }

 private:
  std::optional<double> Temperature() const {
    for (const fs::path& monitor : monitors_) {
      // Old drivers have one sensor, that of the edge, and no label.
      for (const fs::path& input :
           {Labelled(monitor, "temp", "edge"), Labelled(monitor, "temp", "junction"),
            monitor / "temp1_input"}) {
        if (input.empty()) continue;
        if (const std::optional<double> celsius = ReadCelsius(input)) return celsius;
      }
    }
    return std::nullopt;
  }

  std::optional<double> Clock() const {
    for (const fs::path& monitor : monitors_) {
      fs::path input = Labelled(monitor, "freq", "sclk");
      if (input.empty()) input = monitor / "freq1_input";
      const std::optional<double> mhz =
          ReadNumber(input, 1e-6, sensor_files::kLowestMhz, sensor_files::kHighestMhz);
      if (mhz) return mhz;
    }
    if (device_.empty()) return std::nullopt;
    const std::optional<std::string> table = ReadText(device_ / "pp_dpm_sclk");
    return table ? StarredMhz(*table) : std::nullopt;
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

  const int index_;
  const fs::path drm_;
  const fs::path device_;
  const std::vector<fs::path> monitors_;
};

}  // namespace

std::unique_ptr<Sensors> AmdSensors(int index, const fs::path& root) {
  return std::make_unique<AmdSensorsImpl>(index, sensor_files::RootOr(root));
}

}  // namespace tunableop
