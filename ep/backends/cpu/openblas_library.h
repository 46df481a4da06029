// OpenBLAS, found and loaded at run time; nothing links to it.
#pragma once

#include <cstdint>
#include <string>

#include "gemm/status.h"

namespace tunableop::cpu {

// The entry points used (CBLAS with 32-bit integers) and what they came from. The library stays
// loaded until the process ends.
struct OpenBlasLibrary {
  using Sgemm = void (*)(int order, int trans_a, int trans_b, int32_t m, int32_t n, int32_t k,
                         float alpha, const float* a, int32_t lda, const float* b, int32_t ldb,
                         float beta, float* c, int32_t ldc);
  Sgemm sgemm = nullptr;
  std::string version;  // "0.3.34"
  std::string core;     // "SkylakeX"
  std::string path;
};

// Looks at TUNABLEOP_OPENBLAS_LIBRARY (a file; when set, nothing else is tried), then the path
// given by SetOpenBlasSearchPath (a file, or a folder with the library). Sets the library to one
// thread: its own pool beside ONNX Runtime's costs 1.7-3.0x (measured), so it is called from
// several threads at once instead. kNotFound: no library, or a symbol that it lacks; kNotSupported:
// it has 64-bit integers.
Result<OpenBlasLibrary> LoadOpenBlas();

}  // namespace tunableop::cpu

namespace tunableop {

// Where to look for OpenBLAS: what the Python package scipy_openblas32 says. Has no effect once the
// libraries were loaded (CpuBackends()). Thread-safe.
void SetOpenBlasSearchPath(std::string path);

}  // namespace tunableop
