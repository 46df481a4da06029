// NVML, NVIDIA's library of sensors, found and loaded at run time; nothing links to it.
#pragma once

#include <memory>
#include <string>

#include "gemm/status.h"

namespace tunableop {

// What nvml.h calls so; NVIDIA keeps these stable.
using NvmlDevice = void*;  // nvmlDevice_t
struct NvmlMemory {        // nvmlMemory_t, bytes
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
inline constexpr int kNvmlSuccess = 0;         // NVML_SUCCESS
inline constexpr int kNvmlGpuTemperature = 0;  // NVML_TEMPERATURE_GPU
inline constexpr int kNvmlSmClock = 1;         // NVML_CLOCK_SM
// No code of NVML's: this library lacks the function.
inline constexpr int kNvmlNoSymbol = -1;

// Null: the library lacks it. Thread-safe (NVML API reference).
struct NvmlFunctions {
  int (*init)() = nullptr;                     // always there
  int (*shutdown)() = nullptr;                 // always there
  const char* (*error_string)(int) = nullptr;  // always there
  int (*handle_by_index)(unsigned, NvmlDevice*) = nullptr;
  int (*handle_by_bus_id)(const char*, NvmlDevice*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;  // degrees Celsius
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;        // MHz
  int (*power)(NvmlDevice, unsigned*) = nullptr;             // milliwatts
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*throttle_reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*mig_mode)(NvmlDevice, unsigned* current, unsigned* pending) = nullptr;
};

// NVML, initialised. Thread-safe.
class Nvml {
 public:
  // libnvidia-ml.so.1, or what TUNABLEOP_NVML_LIBRARY names. kNotFound: no library, or it lacks
  // what every version has; kNotSupported: it cannot start (no driver).
  static Result<std::unique_ptr<Nvml>> Load();
  // Others in this process may have it initialised as well: NVML counts.
  ~Nvml() { functions_.shutdown(); }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const NvmlFunctions& functions() const noexcept { return functions_; }
  // "nvmlDeviceGetClockInfo: Not Supported". Precondition: code is not kNvmlSuccess.
  std::string Words(const char* function, int code) const;

 private:
  struct Close {
    void operator()(void* handle) const noexcept;
  };
  using Handle = std::unique_ptr<void, Close>;

  Nvml(Handle handle, std::string name, const NvmlFunctions& functions) noexcept;

  const Handle handle_;
  const std::string name_;
  const NvmlFunctions functions_;
};

}  // namespace tunableop
