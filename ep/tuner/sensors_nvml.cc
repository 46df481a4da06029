#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>
#include <utility>

#include "gemm/status.h"
#include "tuner/sensor_files.h"
#include "tuner/sensors.h"

namespace tunableop {
namespace {

// From nvml.h; NVIDIA keeps these stable.
constexpr int kSuccess = 0;         // NVML_SUCCESS
constexpr int kGpuTemperature = 0;  // NVML_TEMPERATURE_GPU
constexpr int kSmClock = 1;         // NVML_CLOCK_SM
using Device = void*;               // nvmlDevice_t

struct Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*handle_by_index)(unsigned, Device*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;  // degrees Celsius
  int (*clock)(Device, int, unsigned*) = nullptr;        // MHz
};

// NVML, initialised. Its functions are thread-safe (NVML API reference).
class Nvml {
 public:
  static Result<std::unique_ptr<Nvml>> Load() {
    const char* chosen = std::getenv("TUNABLEOP_NVML_LIBRARY");
    const std::string name = chosen != nullptr && *chosen != '\0' ? chosen : "libnvidia-ml.so.1";
    Handle handle(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (handle == nullptr) {
      const char* error = dlerror();
      return Status(StatusCode::kNotFound, error != nullptr ? error : name + " cannot be loaded");
    }
    Functions functions;
    const char* missing = nullptr;
    const auto find = [&](const char* symbol, auto* function) {
      using Function = std::remove_pointer_t<decltype(function)>;
      *function = reinterpret_cast<Function>(dlsym(handle.get(), symbol));
      if (*function == nullptr && missing == nullptr) missing = symbol;
    };
    find("nvmlInit_v2", &functions.init);
    find("nvmlShutdown", &functions.shutdown);
    find("nvmlErrorString", &functions.error_string);
    find("nvmlDeviceGetHandleByIndex_v2", &functions.handle_by_index);
    find("nvmlDeviceGetTemperature", &functions.temperature);
    find("nvmlDeviceGetClockInfo", &functions.clock);
    if (missing != nullptr) {
      return Status(StatusCode::kNotFound, name + " has no symbol " + missing);
    }
    const int code = functions.init();
    if (code != kSuccess) {
      return Status(StatusCode::kNotSupported, "nvmlInit_v2: " + Words(functions, code));
    }
    return std::unique_ptr<Nvml>(new Nvml(std::move(handle), functions));
  }

  // Others in this process may have it initialised as well: NVML counts.
  ~Nvml() { functions_.shutdown(); }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const Functions& functions() const noexcept { return functions_; }
  std::string Words(int code) const { return Words(functions_, code); }

 private:
  struct Close {
    void operator()(void* handle) const noexcept { dlclose(handle); }
  };
  using Handle = std::unique_ptr<void, Close>;

  Nvml(Handle handle, const Functions& functions) noexcept
      : handle_(std::move(handle)), functions_(functions) {}

  static std::string Words(const Functions& functions, int code) {
    const char* text = functions.error_string(code);
    return text != nullptr ? text : "error " + std::to_string(code);
  }

  const Handle handle_;
  const Functions functions_;
};

class NvidiaSensorsImpl final : public Sensors {
 public:
  explicit NvidiaSensorsImpl(int index) {
    Result<std::unique_ptr<Nvml>> nvml = Nvml::Load();
    if (!nvml.ok()) {
      reason_ = nvml.status().message();
      return;
    }
    if (index < 0) {
      reason_ = "no GPU " + std::to_string(index);
      return;
    }
    const int code =
        nvml.value()->functions().handle_by_index(static_cast<unsigned>(index), &device_);
    if (code != kSuccess) {
      reason_ = "GPU " + std::to_string(index) +
                ": nvmlDeviceGetHandleByIndex_v2: " + nvml.value()->Words(code);
      return;
    }
    nvml_ = std::move(nvml.value());
  }

  MachineState Read() const noexcept override {
    MachineState state;
    if (nvml_ == nullptr) return state;
    double value = 0.0;
    if (Temperature(&value) == kSuccess && PlausibleCelsius(value)) state.temperature_c = value;
    if (Clock(&value) == kSuccess && PlausibleMhz(value)) state.clock_mhz = value;
    return state;
  }

  std::vector<std::string> Missing() const override {
    if (nvml_ == nullptr) {
      return {"temperature: " + reason_, "clock: " + reason_, "memory fragmentation: " + reason_};
    }
    std::vector<std::string> lines;
    double value = 0.0;
    const auto add = [&](const std::string& what, const std::string& function, int code,
                         bool plausible) {
      if (code != kSuccess) {
        lines.push_back(what + ": " + function + ": " + nvml_->Words(code));
      } else if (!plausible) {
        lines.push_back(what + ": " + function + " says " + std::to_string(value));
      }
    };
    int code = Temperature(&value);
    add("temperature", "nvmlDeviceGetTemperature", code, PlausibleCelsius(value));
    code = Clock(&value);
    add("clock", "nvmlDeviceGetClockInfo", code, PlausibleMhz(value));
    lines.emplace_back(
        "memory fragmentation: NVML says how much is used, not how the free part is cut up");
    return lines;
  }

 private:
  static bool PlausibleCelsius(double value) noexcept {
    return value >= sensor_files::kLowestCelsius && value <= sensor_files::kHighestCelsius;
  }
  static bool PlausibleMhz(double value) noexcept {
    return value >= sensor_files::kLowestMhz && value <= sensor_files::kHighestMhz;
  }

  int Temperature(double* value) const noexcept {
    unsigned celsius = 0;
    const int code = nvml_->functions().temperature(device_, kGpuTemperature, &celsius);
    *value = celsius;
    return code;
  }
  int Clock(double* value) const noexcept {
    unsigned mhz = 0;
    const int code = nvml_->functions().clock(device_, kSmClock, &mhz);
    *value = mhz;
    return code;
  }

  std::unique_ptr<Nvml> nvml_;  // nullptr: `reason_` says why
  Device device_ = nullptr;     // NVML's; nothing to free
  std::string reason_;
};

}  // namespace

std::unique_ptr<Sensors> NvidiaSensors(int index) {
  return std::make_unique<NvidiaSensorsImpl>(index);
}

}  // namespace tunableop
