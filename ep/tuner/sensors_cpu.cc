#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "tuner/sensor_files.h"
#include "tuner/sensors.h"

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

namespace tunableop {
namespace {

namespace fs = std::filesystem;
using sensor_files::Numbered;
using sensor_files::ReadCelsius;
using sensor_files::ReadNumber;
using sensor_files::ReadText;
using sensor_files::ToNumber;

// A block of /proc/cpuinfo has about 1.5 kB; this is enough for a thousand processors.
constexpr size_t kMaxCpuInfoBytes = size_t{4} << 20;

// By the index of the processor: may this process use it? That of its first thread, since pools set
// those of their own. Empty: not known.
std::vector<bool> AllowedProcessors() {
  std::vector<bool> allowed;
#if defined(__linux__)
  // The system refuses a mask that is shorter than its own.
  for (size_t words = 16; words <= 4096 && allowed.empty(); words *= 4) {
    std::vector<unsigned long> mask(words);
    constexpr size_t kBits = 8 * sizeof(unsigned long);
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (sched_getaffinity(getpid(), words * sizeof(unsigned long), set) != 0) continue;
    allowed.resize(words * kBits);
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = (mask[i / kBits] >> (i % kBits)) & 1U;
  }
#endif
  return allowed;
}

class Mean {
 public:
  void Add(std::optional<double> value) noexcept {
    if (!value) return;
    sum_ += *value;
    ++count_;
  }
  std::optional<double> Get() const noexcept {
    if (count_ == 0) return std::nullopt;
    return sum_ / count_;
  }

 private:
  double sum_ = 0.0;
  int count_ = 0;
};

std::optional<double> Hottest(const std::vector<fs::path>& inputs) {
  std::optional<double> hottest;
  for (const fs::path& input : inputs) {
    const std::optional<double> celsius = ReadCelsius(input);
    if (celsius && (!hottest || *celsius > *hottest)) hottest = celsius;
  }
  return hottest;
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool IsPackage(const std::string& label) {
  return label.starts_with("Package id") || label == "Tctl" || label == "Tdie";
}

// The inputs of the whole package; of a driver that labels none so, all it has.
std::vector<fs::path> PackageInputs(const fs::path& monitor) {
  std::vector<fs::path> inputs = Numbered(monitor, "temp", "_input");
  std::vector<fs::path> packages;
  for (const fs::path& input : inputs) {
    std::string label = input.filename().string();
    label.replace(label.rfind("_input"), std::string::npos, "_label");
    if (IsPackage(ReadText(monitor / label).value_or(""))) packages.push_back(input);
  }
  return packages.empty() ? inputs : packages;
}

std::vector<fs::path> MonitorInputs(const fs::path& hwmon) {
  constexpr std::array<std::string_view, 3> kDrivers = {"coretemp", "k10temp", "zenpower"};
  std::vector<fs::path> inputs;
  for (const fs::path& monitor : Numbered(hwmon, "hwmon")) {
    const std::string driver = ReadText(monitor / "name").value_or("");
    if (std::find(kDrivers.begin(), kDrivers.end(), driver) == kDrivers.end()) continue;
    for (fs::path& input : PackageInputs(monitor)) inputs.push_back(std::move(input));
  }
  return inputs;
}

// x86_pkg_temp if there is one; else what begins with "cpu" (cpu-thermal, cpu0-thermal, CPU-therm).
std::vector<fs::path> ZoneInputs(const fs::path& thermal) {
  std::vector<fs::path> packages;
  std::vector<fs::path> processors;
  for (const fs::path& zone : Numbered(thermal, "thermal_zone")) {
    const std::string type = Lower(ReadText(zone / "type").value_or(""));
    if (type == "x86_pkg_temp") packages.push_back(zone / "temp");
    if (type.starts_with("cpu")) processors.push_back(zone / "temp");
  }
  return packages.empty() ? processors : packages;
}

class CpuSensorsImpl final : public sensor_files::FileSensors {
 public:
  explicit CpuSensorsImpl(const fs::path& root)
      : hwmon_(root / "sys/class/hwmon"),
        thermal_(root / "sys/class/thermal"),
        processors_(root / "sys/devices/system/cpu"),
        cpuinfo_(root / "proc/cpuinfo"),
        monitors_(MonitorInputs(hwmon_)),
        zones_(ZoneInputs(thermal_)),
        frequencies_(Numbered(processors_, "cpu")) {}

  std::vector<std::string> Missing() const override {
    std::vector<std::string> lines;
    if (!Temperature()) {
      if (!monitors_.empty() || !zones_.empty()) {
        const fs::path& first = monitors_.empty() ? zones_.front() : monitors_.front();
        lines.push_back("temperature: no plausible number in " + first.string());
      } else {
        lines.push_back("temperature: no coretemp, k10temp or zenpower in " + hwmon_.string() +
                        ", no processor's zone in " + thermal_.string());
      }
    }
    if (!Clock()) {
      lines.push_back("clock: no cpufreq in " + processors_.string() + ", no \"cpu MHz\" in " +
                      cpuinfo_.string());
    }
    lines.emplace_back("memory fragmentation: not read of host memory");
    return lines;
  }

 private:
  void ReadInto(MachineState& state) const override {
    state.temperature_c = Temperature();
    state.clock_mhz = Clock();
  }

  std::optional<double> Temperature() const {
    const std::optional<double> celsius = Hottest(monitors_);
    return celsius ? celsius : Hottest(zones_);
  }

  std::optional<double> Clock() const {
    const std::vector<bool> allowed = AllowedProcessors();
    const std::optional<double> mhz = FrequencyMean(allowed);
    return mhz ? mhz : CpuInfoMean(allowed);
  }

  static bool Counts(const std::vector<bool>& allowed, size_t processor) {
    return allowed.empty() || (processor < allowed.size() && allowed[processor]);
  }

  // In kHz.
  std::optional<double> FrequencyMean(const std::vector<bool>& allowed) const {
    Mean mean;
    for (const fs::path& processor : frequencies_) {
      const std::optional<double> index = ToNumber(processor.filename().string().substr(3));
      if (!index || !Counts(allowed, static_cast<size_t>(*index))) continue;
      mean.Add(ReadNumber(processor / "cpufreq/scaling_cur_freq", 1e-3, sensor_files::kLowestMhz,
                          sensor_files::kHighestMhz));
    }
    return mean.Get();
  }

  // x86 only: others have no such line.
  std::optional<double> CpuInfoMean(const std::vector<bool>& allowed) const {
    const std::optional<std::string> text = ReadText(cpuinfo_, kMaxCpuInfoBytes);
    if (!text) return std::nullopt;
    Mean mean;
    std::optional<double> processor;
    std::string_view rest = *text;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;
      const std::string_view value = line.substr(colon + 1);
      if (line.starts_with("processor")) processor = ToNumber(value);
      if (!line.starts_with("cpu MHz")) continue;
      const std::optional<double> mhz = ToNumber(value);
      const bool plausible =
          mhz && *mhz >= sensor_files::kLowestMhz && *mhz <= sensor_files::kHighestMhz;
      const bool known = processor && *processor >= 0.0 && *processor < 1e9;
      if (plausible && known && Counts(allowed, static_cast<size_t>(*processor))) mean.Add(mhz);
    }
    return mean.Get();
  }

  const fs::path hwmon_;
  const fs::path thermal_;
  const fs::path processors_;
  const fs::path cpuinfo_;
  // Found once: a driver that is loaded later is not seen.
  const std::vector<fs::path> monitors_;
  const std::vector<fs::path> zones_;
  const std::vector<fs::path> frequencies_;  // of all processors, one folder each
};

}  // namespace

std::unique_ptr<Sensors> CpuSensors(const fs::path& root) {
  return std::make_unique<CpuSensorsImpl>(sensor_files::RootOr(root));
}

}  // namespace tunableop
