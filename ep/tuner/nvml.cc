#include "tuner/nvml.h"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>
#include <utility>

namespace tunableop {
namespace {

std::string ErrorText(const NvmlFunctions& functions, int code) {
  const char* text = functions.error_string(code);
  return text != nullptr ? text : "error " + std::to_string(code);
}

}  // namespace

void Nvml::Close::operator()(void* handle) const noexcept { dlclose(handle); }

Nvml::Nvml(Handle handle, std::string name, const NvmlFunctions& functions) noexcept
    : handle_(std::move(handle)), name_(std::move(name)), functions_(functions) {}

Result<std::unique_ptr<Nvml>> Nvml::Load() {
  const char* chosen = std::getenv("TUNABLEOP_NVML_LIBRARY");
  std::string name = chosen != nullptr && *chosen != '\0' ? chosen : "libnvidia-ml.so.1";
  Handle handle(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) {
    const char* error = dlerror();
    return Status(StatusCode::kNotFound, error != nullptr ? error : name + " cannot be loaded");
  }
  NvmlFunctions functions;
  const auto find = [&](const char* symbol, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle.get(), symbol));
    return function != nullptr;
  };
  const char* missing = nullptr;
  if (!find("nvmlInit_v2", functions.init)) missing = "nvmlInit_v2";
  if (!find("nvmlShutdown", functions.shutdown)) missing = "nvmlShutdown";
  if (!find("nvmlErrorString", functions.error_string)) missing = "nvmlErrorString";
  if (missing != nullptr) {
    return Status(StatusCode::kNotFound, name + " has no symbol " + missing);
  }
  find("nvmlDeviceGetHandleByIndex_v2", functions.handle_by_index);
  find("nvmlDeviceGetHandleByPciBusId_v2", functions.handle_by_bus_id);
  find("nvmlDeviceGetTemperature", functions.temperature);
  find("nvmlDeviceGetClockInfo", functions.clock);
  find("nvmlDeviceGetPowerUsage", functions.power);
  find("nvmlDeviceGetMemoryInfo", functions.memory);
  // The name since driver 535; both are there since.
  if (!find("nvmlDeviceGetCurrentClocksEventReasons", functions.throttle_reasons)) {
    find("nvmlDeviceGetCurrentClocksThrottleReasons", functions.throttle_reasons);
  }
  find("nvmlDeviceGetMigMode", functions.mig_mode);
  const int code = functions.init();
  if (code != kNvmlSuccess) {
    return Status(StatusCode::kNotSupported, "nvmlInit_v2: " + ErrorText(functions, code));
  }
  return std::unique_ptr<Nvml>(new Nvml(std::move(handle), std::move(name), functions));
}

std::string Nvml::Words(const char* function, int code) const {
  if (code == kNvmlNoSymbol) return name_ + " has no symbol " + function;
  return std::string(function) + ": " + ErrorText(functions_, code);
}

}  // namespace tunableop
