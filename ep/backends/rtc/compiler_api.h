// The functions of a vendor's compiler at run time. nvrtc's and hiprtc's have the same shape, so
// there is one table, and two lists of names for it.
#pragma once

#include <string>

#include "abi/cuda_api.h"
#include "abi/hip_api.h"
#include "backends/gpu/vendor_library.h"
#include "gemm/status.h"

namespace tunableop {

// What it is called here, in nvrtc, in hiprtc.
#define TUNABLEOP_COMPILER_FUNCTIONS(X)                                 \
  X(GetErrorString, nvrtcGetErrorString, hiprtcGetErrorString)          \
  X(Version, nvrtcVersion, hiprtcVersion)                               \
  X(CreateProgram, nvrtcCreateProgram, hiprtcCreateProgram)             \
  X(DestroyProgram, nvrtcDestroyProgram, hiprtcDestroyProgram)          \
  X(CompileProgram, nvrtcCompileProgram, hiprtcCompileProgram)          \
  X(GetCodeSize, nvrtcGetCUBINSize, hiprtcGetCodeSize)                  \
  X(GetCode, nvrtcGetCUBIN, hiprtcGetCode)                              \
  X(GetProgramLogSize, nvrtcGetProgramLogSize, hiprtcGetProgramLogSize) \
  X(GetProgramLog, nvrtcGetProgramLog, hiprtcGetProgramLog)

struct CompilerApi {
#define TUNABLEOP_MEMBER(member, nvrtc, hiprtc) cuda_abi::nvrtc##_fn member = nullptr;
  TUNABLEOP_COMPILER_FUNCTIONS(TUNABLEOP_MEMBER)
#undef TUNABLEOP_MEMBER
  // nvrtc alone; used where they are.
  cuda_abi::nvrtcGetNumSupportedArchs_fn GetNumSupportedArchs = nullptr;
  cuda_abi::nvrtcGetSupportedArchs_fn GetSupportedArchs = nullptr;
  cuda_abi::nvrtcGetPTXSize_fn GetPtxSize = nullptr;
  cuda_abi::nvrtcGetPTX_fn GetPtx = nullptr;

  // kNotSupported: which function `library` lacks.
  static Result<CompilerApi> Bind(Vendor vendor, const VendorLibrary& library);

  // "NVRTC_ERROR_COMPILATION".
  std::string Words(int code) const;
};

// The codes of both; compiler_api.cc asserts that they are equal.
namespace compiler_code {
inline constexpr int kSuccess = cuda_abi::NVRTC_SUCCESS;
inline constexpr int kOutOfMemory = cuda_abi::NVRTC_ERROR_OUT_OF_MEMORY;
}  // namespace compiler_code

}  // namespace tunableop
