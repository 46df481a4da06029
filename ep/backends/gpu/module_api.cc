#include "backends/gpu/module_api.h"

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <utility>

namespace tunableop {
namespace {

#define TUNABLEOP_SAME(member, cuda, hip)                               \
  static_assert(std::is_same_v<cuda_abi::cuda##_fn, hip_abi::hip##_fn>, \
                "the two vendors differ in " #member);
TUNABLEOP_MODULE_FUNCTIONS(TUNABLEOP_SAME)
#undef TUNABLEOP_SAME

// Of an image. HIP's numbers are the same ones where it has the error.
constexpr std::array kUnfit = {
    cuda_abi::cudaErrorInvalidKernelImage,
    cuda_abi::cudaErrorNoKernelImageForDevice,
    cuda_abi::cudaErrorInvalidPtx,
    cuda_abi::cudaErrorUnsupportedPtxVersion,
    cuda_abi::cudaErrorJitCompilerNotFound,
    cuda_abi::cudaErrorJitCompilationDisabled,
    cuda_abi::cudaErrorSharedObjectInitFailed,
};
static_assert(cuda_abi::cudaErrorInvalidKernelImage == hip_abi::hipErrorInvalidImage);
static_assert(cuda_abi::cudaErrorNoKernelImageForDevice == hip_abi::hipErrorNoBinaryForGpu);
static_assert(cuda_abi::cudaErrorInvalidPtx == hip_abi::hipErrorInvalidKernelFile);
static_assert(cuda_abi::cudaErrorSharedObjectInitFailed == hip_abi::hipErrorSharedObjectInitFailed);

}  // namespace

ModuleApi ModuleApi::Bind(Vendor vendor, const VendorLibrary& runtime) {
  const bool cuda = vendor == Vendor::kNvidia;
  ModuleApi api;
  std::optional<VendorLibrary> driver;
  if (cuda) {
    // The runtime loads it itself, so it is in the process where there are cards.
    constexpr std::array kNames = {"libcuda.so.1"};
    Result<VendorLibrary> found = VendorLibrary::Load(vendor, kNames);
    if (!found.ok()) {
      api.missing_ = found.status().message();
      return api;
    }
    driver = std::move(found).value();
  }
  const VendorLibrary& library = cuda ? *driver : runtime;
  std::string missing;
  const auto find = [&](auto* function, const char* name) {
    using Function = std::remove_pointer_t<decltype(function)>;
    *function = reinterpret_cast<Function>(library.Symbol(name));
    if (*function == nullptr && missing.empty()) missing = name;
  };
#define TUNABLEOP_FIND(member, cuda_name, hip_name) \
  find(&api.member, cuda ? #cuda_name : #hip_name);
  TUNABLEOP_MODULE_FUNCTIONS(TUNABLEOP_FIND)
#undef TUNABLEOP_FIND
  if (missing.empty()) {
    api.missing_.clear();
    return api;
  }
  api = ModuleApi();
  api.missing_ = library.path() + " has no symbol " + missing;
  return api;
}

bool ModuleApi::IsUnfit(int code) noexcept {
  return std::find(kUnfit.begin(), kUnfit.end(), code) != kUnfit.end();
}

}  // namespace tunableop
