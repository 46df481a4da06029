#include <array>
#include <utility>

#include "tuner/gpu_sensors.h"
#include "tuner/nvml.h"
#include "tuner/sensor_files.h"
#include "tuner/sensors.h"

namespace tunableop {
namespace {

struct Reason {
  unsigned long long bit;
  const char* words;
};
// nvml.h, nvmlClocksEventReasons. Left out, since they slow nobody down against their will: idle
// (0x1), clocks that were set (0x2), display clocks (0x100).
constexpr std::array<Reason, 6> kReasons = {{{0x4, "power cap"},
                                             {0x8, "hardware slowdown"},
                                             {0x10, "sync boost"},
                                             {0x20, "thermal slowdown by the driver"},
                                             {0x40, "thermal slowdown by the hardware"},
                                             {0x80, "power brake"}}};

// One card as NVML hands it out.
struct Card {
  std::unique_ptr<Nvml> nvml;   // nullptr: `reason` says why
  NvmlDevice device = nullptr;  // NVML's; nothing to free
  std::string reason;
};

// `find` looks for the card: a code of NVML. `name` of the card, `function` that finds it, for the
// reason.
template <typename Find>
Card FindCard(const std::string& name, const char* function, Find find) {
  Card card;
  Result<std::unique_ptr<Nvml>> nvml = Nvml::Load();
  if (!nvml.ok()) {
    card.reason = nvml.status().message();
    return card;
  }
  const int code = find(nvml.value()->functions(), &card.device);
  if (code != kNvmlSuccess) {
    card.reason = name + ": " + nvml.value()->Words(function, code);
    return card;
  }
  card.nvml = std::move(nvml.value());
  return card;
}

Card CardAt(const std::string& pci_bus_id) {
  const std::string id = gpu_sensors::BusId(pci_bus_id);
  if (id.empty()) {
    Card card;
    card.reason = "no GPU '" + pci_bus_id + "'";
    return card;
  }
  return FindCard("GPU " + id, "nvmlDeviceGetHandleByPciBusId_v2",
                  [&](const NvmlFunctions& functions, NvmlDevice* device) {
                    return functions.handle_by_bus_id == nullptr
                               ? kNvmlNoSymbol
                               : functions.handle_by_bus_id(id.c_str(), device);
                  });
}

class NvidiaSensorsImpl final : public Sensors {
 public:
  explicit NvidiaSensorsImpl(Card card) : card_(std::move(card)) {}

  MachineState Read() const noexcept override {
    MachineState state;
    if (card_.nvml == nullptr) return state;
    try {
      state.temperature_c = Temperature(nullptr);
      state.clock_mhz = Clock(nullptr);
      state.power_w = Power(nullptr);
      state.free_memory_bytes = FreeMemory(nullptr);
      state.throttled = Throttled(nullptr);
    } catch (...) {
      return state;  // out of memory: what was not read is missing
    }
    return state;
  }

  std::vector<std::string> Missing() const override {
    if (card_.nvml == nullptr) return gpu_sensors::AllMissing(card_.reason);
    std::vector<std::string> lines;
    const auto add = [&](const char* what, bool there, const std::string& why) {
      if (!there) lines.push_back(std::string(what) + ": " + why);
    };
    std::string why;
    add("temperature", Temperature(&why).has_value(), why);
    add("clock", Clock(&why).has_value(), why);
    add("power", Power(&why).has_value(), why);
    add("free memory", FreeMemory(&why).has_value(), why);
    add("throttled", Throttled(&why).has_value(), why);
    lines.emplace_back(
        "memory fragmentation: NVML says how much is used, not how the free part is cut up");
    return lines;
  }

 private:
  // Calls function(card, arguments...) and says in `why`, if that is wanted, what it answers when
  // it fails.
  template <typename Function, typename... Arguments>
  bool Ask(const char* name, std::string* why, Function function, Arguments... arguments) const {
    const int code = function == nullptr ? kNvmlNoSymbol : function(card_.device, arguments...);
    if (code != kNvmlSuccess && why != nullptr) *why = card_.nvml->Words(name, code);
    return code == kNvmlSuccess;
  }

  static std::optional<double> Plausible(const char* name, double value, double lowest,
                                         double highest, std::string* why) {
    if (value >= lowest && value <= highest) return value;
    if (why != nullptr) *why = std::string(name) + " says " + std::to_string(value);
    return std::nullopt;
  }

  const NvmlFunctions& functions() const noexcept { return card_.nvml->functions(); }

  std::optional<double> Temperature(std::string* why) const {
    constexpr const char* kName = "nvmlDeviceGetTemperature";
    unsigned celsius = 0;
    if (!Ask(kName, why, functions().temperature, kNvmlGpuTemperature, &celsius)) {
      return std::nullopt;
    }
    return Plausible(kName, celsius, sensor_files::kLowestCelsius, sensor_files::kHighestCelsius,
                     why);
  }

  std::optional<double> Clock(std::string* why) const {
    constexpr const char* kName = "nvmlDeviceGetClockInfo";
    unsigned mhz = 0;
    if (!Ask(kName, why, functions().clock, kNvmlSmClock, &mhz)) return std::nullopt;
    return Plausible(kName, mhz, sensor_files::kLowestMhz, sensor_files::kHighestMhz, why);
  }

  std::optional<double> Power(std::string* why) const {
    constexpr const char* kName = "nvmlDeviceGetPowerUsage";
    unsigned milliwatts = 0;
    if (!Ask(kName, why, functions().power, &milliwatts)) return std::nullopt;
    return Plausible(kName, milliwatts * 1e-3, 0.0, sensor_files::kHighestWatts, why);
  }

  std::optional<uint64_t> FreeMemory(std::string* why) const {
    constexpr const char* kName = "nvmlDeviceGetMemoryInfo";
    NvmlMemory memory;
    if (!Ask(kName, why, functions().memory, &memory)) return std::nullopt;
    if (memory.free <= memory.total && memory.total > 0) return memory.free;
    if (why != nullptr) {
      *why = std::string(kName) + " says " + std::to_string(memory.free) + " of " +
             std::to_string(memory.total);
    }
    return std::nullopt;
  }

  std::optional<std::string> Throttled(std::string* why) const {
    unsigned long long bits = 0;
    if (!Ask("nvmlDeviceGetCurrentClocksThrottleReasons", why, functions().throttle_reasons,
             &bits)) {
      return std::nullopt;
    }
    std::string reasons;
    for (const Reason& reason : kReasons) {
      if ((bits & reason.bit) != 0)
        reasons += (reasons.empty() ? "" : ", ") + std::string(reason.words);
    }
    return reasons;
  }

  const Card card_;
};

}  // namespace

std::unique_ptr<Sensors> NvidiaSensors(int index) {
  if (index < 0) {
    Card card;
    card.reason = "no GPU " + std::to_string(index);
    return std::make_unique<NvidiaSensorsImpl>(std::move(card));
  }
  return std::make_unique<NvidiaSensorsImpl>(
      FindCard("GPU " + std::to_string(index), "nvmlDeviceGetHandleByIndex_v2",
               [&](const NvmlFunctions& functions, NvmlDevice* device) {
                 return functions.handle_by_index == nullptr
                            ? kNvmlNoSymbol
                            : functions.handle_by_index(static_cast<unsigned>(index), device);
               }));
}

std::unique_ptr<Sensors> NvidiaSensorsAt(const std::string& pci_bus_id) {
  return std::make_unique<NvidiaSensorsImpl>(CardAt(pci_bus_id));
}

namespace gpu_sensors {

std::string NvidiaPartition(const std::string& pci_bus_id) {
  const Card card = CardAt(pci_bus_id);
  if (card.nvml == nullptr || card.nvml->functions().mig_mode == nullptr) return "";
  unsigned current = 0;
  unsigned pending = 0;
  if (card.nvml->functions().mig_mode(card.device, &current, &pending) != kNvmlSuccess) return "";
  return current == 1 ? "mig" : "";  // NVML_DEVICE_MIG_ENABLE
}

}  // namespace gpu_sensors

}  // namespace tunableop
