#include "backends/gpu/runtime_api.h"

#include <algorithm>
#include <array>
#include <type_traits>

namespace tunableop {
namespace {

#define TUNABLEOP_SAME(member, cuda, hip)                               \
  static_assert(std::is_same_v<cuda_abi::cuda##_fn, hip_abi::hip##_fn>, \
                "the two runtimes differ in " #member);
TUNABLEOP_RUNTIME_FUNCTIONS(TUNABLEOP_SAME)
TUNABLEOP_OPTIONAL_RUNTIME_FUNCTIONS(TUNABLEOP_SAME)
#undef TUNABLEOP_SAME

static_assert(runtime_code::kSuccess == hip_abi::hipSuccess);
static_assert(runtime_code::kOutOfMemory == hip_abi::hipErrorOutOfMemory);
static_assert(runtime_code::kInsufficientDriver == hip_abi::hipErrorInsufficientDriver);
static_assert(runtime_code::kNoDevice == hip_abi::hipErrorNoDevice);
static_assert(runtime_code::kInvalidDevice == hip_abi::hipErrorInvalidDevice);
static_assert(runtime_code::kNoContext == hip_abi::hipErrorInvalidContext);
static_assert(runtime_code::kNoContext == cuda_abi::CUDA_ERROR_INVALID_CONTEXT);
static_assert(runtime_code::kSymbolNotFound == hip_abi::hipErrorNotFound);
static_assert(runtime_code::kNotReady == hip_abi::hipErrorNotReady);
static_assert(runtime_code::kFirstOfCapture == hip_abi::hipErrorStreamCaptureUnsupported);
static_assert(runtime_code::kLastOfCapture == hip_abi::hipErrorStreamCaptureWrongThread);
static_assert(runtime_code::kCaptureNone == hip_abi::hipStreamCaptureStatusNone);
static_assert(runtime_code::kCaptureOfThread == hip_abi::hipStreamCaptureModeThreadLocal);
static_assert(runtime_code::kCaptureRelaxed == hip_abi::hipStreamCaptureModeRelaxed);
static_assert(runtime_code::kNonBlocking == hip_abi::hipStreamNonBlocking);
static_assert(runtime_code::kPortable == hip_abi::hipHostMallocPortable);
static_assert(runtime_code::kHostToDevice == hip_abi::hipMemcpyHostToDevice);
static_assert(runtime_code::kDeviceToHost == hip_abi::hipMemcpyDeviceToHost);
static_assert(runtime_code::kDeviceToDevice == hip_abi::hipMemcpyDeviceToDevice);

// CUDA's documentation says of these that the process must be ended to go on.
constexpr std::array kFatalCuda = {
    cuda_abi::cudaErrorECCUncorrectable,
    cuda_abi::cudaErrorNvlinkUncorrectable,
    cuda_abi::cudaErrorContained,
    cuda_abi::cudaErrorIllegalAddress,
    cuda_abi::cudaErrorLaunchTimeout,
    cuda_abi::cudaErrorContextIsDestroyed,
    cuda_abi::cudaErrorAssert,
    cuda_abi::cudaErrorHardwareStackError,
    cuda_abi::cudaErrorIllegalInstruction,
    cuda_abi::cudaErrorMisalignedAddress,
    cuda_abi::cudaErrorInvalidAddressSpace,
    cuda_abi::cudaErrorInvalidPc,
    cuda_abi::cudaErrorLaunchFailure,
    cuda_abi::cudaErrorTensorMemoryLeak,
    cuda_abi::cudaErrorMpsClientTerminated,
    cuda_abi::cudaErrorExternalDevice,
};
constexpr std::array kFatalHip = {
    hip_abi::hipErrorECCNotCorrectable,
    hip_abi::hipErrorIllegalAddress,
    hip_abi::hipErrorLaunchTimeOut,
    hip_abi::hipErrorContextIsDestroyed,
    hip_abi::hipErrorAssert,
    hip_abi::hipErrorLaunchFailure,
};

}  // namespace

Result<RuntimeApi> RuntimeApi::Bind(Vendor vendor, const VendorLibrary& library) {
  const bool cuda = vendor == Vendor::kNvidia;
  RuntimeApi api;
  api.vendor = vendor;
  api.prefix = cuda ? "cuda" : "hip";
  api.vendor_id = cuda ? 0x10DE : 0x1002;
  api.fatal = cuda ? std::span<const int>(kFatalCuda) : std::span<const int>(kFatalHip);
  std::string missing;
  const auto find = [&](auto* function, const char* name, bool needed) {
    using Function = std::remove_pointer_t<decltype(function)>;
    *function = reinterpret_cast<Function>(library.Symbol(name));
    if (*function == nullptr && needed && missing.empty()) missing = name;
  };
#define TUNABLEOP_FIND(member, cuda_name, hip_name) \
  find(&api.member, cuda ? #cuda_name : #hip_name, true);
  TUNABLEOP_RUNTIME_FUNCTIONS(TUNABLEOP_FIND)
#undef TUNABLEOP_FIND
#define TUNABLEOP_FIND(member, cuda_name, hip_name) \
  find(&api.member, cuda ? #cuda_name : #hip_name, false);
  TUNABLEOP_OPTIONAL_RUNTIME_FUNCTIONS(TUNABLEOP_FIND)
#undef TUNABLEOP_FIND
  if (cuda) {
    find(&api.CudaGraphInstantiate, "cudaGraphInstantiateWithFlags", false);
  } else {
    find(&api.HipGraphInstantiate, "hipGraphInstantiate", false);
  }
  if (!missing.empty()) {
    return Status(StatusCode::kNotFound, library.path() + " has no symbol " + missing);
  }
  return api;
}

bool RuntimeApi::IsFatal(int code) const noexcept {
  return std::find(fatal.begin(), fatal.end(), code) != fatal.end();
}

bool RuntimeApi::HasGraphs() const noexcept {
  return StreamBeginCapture != nullptr && StreamEndCapture != nullptr && GraphLaunch != nullptr &&
         GraphDestroy != nullptr && GraphExecDestroy != nullptr &&
         (CudaGraphInstantiate != nullptr || HipGraphInstantiate != nullptr);
}

int RuntimeApi::Instantiate(void** executable, void* graph) const noexcept {
  if (CudaGraphInstantiate != nullptr) return CudaGraphInstantiate(executable, graph, 0);
  return HipGraphInstantiate(executable, graph, nullptr, nullptr, 0);
}

std::string RuntimeApi::Words(int code) const {
  const char* name = GetErrorName(code);
  const char* words = GetErrorString(code);
  std::string text = name != nullptr ? name : prefix + std::string("Error ") + std::to_string(code);
  if (words != nullptr) text += std::string(": ") + words;
  return text;
}

}  // namespace tunableop
