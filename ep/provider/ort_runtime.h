// The ONNX Runtime that loaded this library: its function tables at the negotiated version.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "abi/ort_c_api.h"
#include "gemm/status.h"

namespace tunableop {

// The oldest ONNX Runtime with the plugin kernel registry.
inline constexpr uint32_t kMinApiVersion = 24;

struct OrtRuntime {
  const OrtApi* api = nullptr;
  const OrtEpApi* ep_api = nullptr;
  // min(version these facts were made for, the runtime's minor version). Every struct that we fill
  // carries it, and no slot newer than it is ever read: an older table simply ends there.
  uint32_t version = 0;
  std::string runtime_version;  // "1.32.0"

  bool Has(uint32_t since) const noexcept { return version >= since; }
};

// Set once by CreateEpFactories, before anything else of this room runs.
const OrtRuntime& Ort() noexcept;

// Error text says which versions would do. `base` is what ONNX Runtime hands to CreateEpFactories.
// Thread-safe; a second call with the same runtime changes nothing, one with another runtime is
// refused.
Status InitOrt(const OrtApiBase* base);

// "1.32.0" -> 32; 0 when it is not of the form 1.<minor>...
uint32_t ParseMinorVersion(const char* version) noexcept;

// An OrtStatus for ONNX Runtime; nullptr for an ok status. Never ORT_EP_FAIL: Python would rerun
// the model on the CPU provider behind the user's back and stay there.
OrtStatus* ToOrt(const Status& status) noexcept;

// Consumes `status` (null is ok).
Status FromOrt(OrtStatus* status);

template <auto Release>
struct OrtDeleter {
  template <typename T>
  void operator()(T* pointer) const noexcept {
    (Ort().api->*Release)(pointer);
  }
};
using OwnedKeyValuePairs =
    std::unique_ptr<OrtKeyValuePairs, OrtDeleter<&OrtApi::ReleaseKeyValuePairs>>;
using OwnedTypeInfo = std::unique_ptr<OrtTypeInfo, OrtDeleter<&OrtApi::ReleaseTypeInfo>>;

}  // namespace tunableop

// For functions that return tunableop::Status.
#define TUNABLEOP_RETURN_IF_ORT_ERROR(expression) \
  TUNABLEOP_RETURN_IF_ERROR(::tunableop::FromOrt(expression))
