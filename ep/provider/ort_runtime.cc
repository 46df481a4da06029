#include "provider/ort_runtime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tunableop {
namespace {

OrtRuntime g_runtime;
std::mutex g_runtime_mutex;

OrtErrorCode ToOrtCode(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return ORT_INVALID_ARGUMENT;
    case StatusCode::kNotSupported:
      return ORT_NOT_IMPLEMENTED;
    case StatusCode::kNotFound:
      return ORT_NOT_FOUND;
    default:
      return ORT_FAIL;
  }
}

}  // namespace

const OrtRuntime& Ort() noexcept { return g_runtime; }

uint32_t ParseMinorVersion(const char* version) noexcept {
  if (version == nullptr || std::strncmp(version, "1.", 2) != 0) return 0;
  char* end = nullptr;
  const unsigned long minor = std::strtoul(version + 2, &end, 10);
  return end != version + 2 && minor < 10000 ? static_cast<uint32_t>(minor) : 0;
}

Status InitOrt(const OrtApiBase* base) {
  const std::lock_guard lock(g_runtime_mutex);
  if (base == nullptr) return {StatusCode::kInvalidArgument, "no OrtApiBase was given"};
  const char* version_string = base->GetVersionString();
  const uint32_t minor = ParseMinorVersion(version_string);
  const std::string found = version_string != nullptr ? version_string : "(none)";
  if (minor < kMinApiVersion) {
    return {StatusCode::kNotSupported, "TunableOp needs ONNX Runtime 1." +
                                           std::to_string(kMinApiVersion) +
                                           " or newer; this process has " + found +
                                           ". Upgrade with: pip install -U onnxruntime"};
  }
  const uint32_t version = std::min(minor, kOrtBuiltApiVersion);
  const OrtApi* api = base->GetApi(version);
  if (api == nullptr) {
    return {StatusCode::kNotSupported, "ONNX Runtime " + found +
                                           " does not offer its interface version " +
                                           std::to_string(version)};
  }
  const OrtEpApi* ep_api = api->GetEpApi();
  if (ep_api == nullptr) {
    return {StatusCode::kNotSupported,
            "ONNX Runtime " + found + " was built without plugin execution providers"};
  }
  if (g_runtime.api == nullptr) {
    g_runtime = OrtRuntime{api, ep_api, version, found};
  } else if (g_runtime.api != api) {
    // Sessions of the first may be running: what they call must stay.
    return {StatusCode::kNotSupported,
            "TunableOp is in use by ONNX Runtime " + g_runtime.runtime_version +
                " of this process; a second one, " + found + ", cannot use it too"};
  }
  return Status::Ok();
}

OrtStatus* ToOrt(const Status& status) noexcept {
  if (status.ok()) return nullptr;
  return g_runtime.api->CreateStatus(ToOrtCode(status.code()), status.c_str());
}

Status FromOrt(OrtStatus* status) {
  if (status == nullptr) return Status::Ok();
  std::string message = g_runtime.api->GetErrorMessage(status);
  g_runtime.api->ReleaseStatus(status);
  return {StatusCode::kInternal, std::move(message)};
}

}  // namespace tunableop
