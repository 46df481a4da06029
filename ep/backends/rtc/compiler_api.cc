#include "backends/rtc/compiler_api.h"

#include <type_traits>

namespace tunableop {
namespace {

#define TUNABLEOP_SAME(member, nvrtc, hiprtc)                               \
  static_assert(std::is_same_v<cuda_abi::nvrtc##_fn, hip_abi::hiprtc##_fn>, \
                "the two compilers differ in " #member);
TUNABLEOP_COMPILER_FUNCTIONS(TUNABLEOP_SAME)
#undef TUNABLEOP_SAME
static_assert(compiler_code::kSuccess == hip_abi::HIPRTC_SUCCESS);
static_assert(compiler_code::kOutOfMemory == hip_abi::HIPRTC_ERROR_OUT_OF_MEMORY);

template <typename Function>
void Find(const VendorLibrary& library, const char* name, Function* function) noexcept {
  *function = reinterpret_cast<Function>(library.Symbol(name));
}

}  // namespace

Result<CompilerApi> CompilerApi::Bind(Vendor vendor, const VendorLibrary& library) {
  const bool nvidia = vendor == Vendor::kNvidia;
  CompilerApi api;
  std::string missing;
  const auto need = [&](auto* function, const char* name) {
    Find(library, name, function);
    if (*function == nullptr && missing.empty()) missing = name;
  };
#define TUNABLEOP_FIND(member, nvrtc, hiprtc) need(&api.member, nvidia ? #nvrtc : #hiprtc);
  TUNABLEOP_COMPILER_FUNCTIONS(TUNABLEOP_FIND)
#undef TUNABLEOP_FIND
  if (!missing.empty()) {
    return Status(StatusCode::kNotSupported, library.path() + " has no symbol " + missing);
  }
  if (nvidia) {
    Find(library, "nvrtcGetNumSupportedArchs", &api.GetNumSupportedArchs);
    Find(library, "nvrtcGetSupportedArchs", &api.GetSupportedArchs);
    Find(library, "nvrtcGetPTXSize", &api.GetPtxSize);
    Find(library, "nvrtcGetPTX", &api.GetPtx);
  }
  return api;
}

std::string CompilerApi::Words(int code) const {
  const char* words = GetErrorString(code);
  return words != nullptr ? words : "error " + std::to_string(code);
}

}  // namespace tunableop
