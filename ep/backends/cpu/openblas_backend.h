// OpenBLAS as a library of kernels: "openblas". Kernels are named after the division of work:
// "sgemm/none", "sgemm/rows", "sgemm/cols", "sgemm/grid", "sgemm/batch".
#pragma once

#include <memory>

#include "backends/cpu/openblas_library.h"
#include "gemm/backend.h"

namespace tunableop {

// Precondition: `library` was loaded and the native kernels run here (they apply epilogues).
std::shared_ptr<const Backend> MakeOpenBlasBackend(cpu::OpenBlasLibrary library);

}  // namespace tunableop
