// rocBLAS's entry points, found at run time; nothing links to it.
#pragma once

#include <string>

#include "abi/hip_api.h"
#include "backends/gpu/vendor_library.h"
#include "gemm/status.h"

namespace tunableop::blas {

struct RocblasLibrary {
  hip_abi::rocblas_create_handle_fn create_handle = nullptr;
  hip_abi::rocblas_destroy_handle_fn destroy_handle = nullptr;
  hip_abi::rocblas_set_stream_fn set_stream = nullptr;
  hip_abi::rocblas_set_pointer_mode_fn set_pointer_mode = nullptr;
  hip_abi::rocblas_set_atomics_mode_fn set_atomics_mode = nullptr;
  hip_abi::rocblas_set_workspace_fn set_workspace = nullptr;
  hip_abi::rocblas_gemm_ex_fn gemm_ex = nullptr;
  hip_abi::rocblas_gemm_strided_batched_ex_fn gemm_strided_batched_ex = nullptr;
  // Beta functions: null where the library has none. Both or neither.
  hip_abi::rocblas_gemm_ex_get_solutions_fn gemm_ex_get_solutions = nullptr;
  hip_abi::rocblas_gemm_strided_batched_ex_get_solutions_fn gemm_strided_batched_ex_get_solutions =
      nullptr;
  std::string version;  // "4.4.0.1d3cd5a5"; "unknown"
};

// kNotFound: which symbol is missing.
Result<RocblasLibrary> BindRocblas(const VendorLibrary& library);

// "rocblas_gemm_ex: invalid size". Ok also for a status that says that a slower kernel was taken.
Status ToStatus(const char* function, int status);

// kNotSupported: the folder of kernels that this rocBLAS reads has none for `arch` ("gfx1151"), and
// its first GEMM would end the process. Ok: it has some, or there is no such folder where rocBLAS
// looks for it (below ROCBLAS_TENSILE_LIBPATH, else beside the library), so that nothing is known.
Status KernelsPresent(const std::string& library_path, const std::string& arch);

}  // namespace tunableop::blas
