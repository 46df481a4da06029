// The table of operators that this provider has kernels for.
#pragma once

#include "abi/ort_c_api.h"
#include "gemm/status.h"

namespace tunableop {

// Makes a registry with every kernel of kernels/. The caller owns `*registry`.
Status MakeKernelRegistry(const char* provider_name, OrtKernelRegistry** registry);

}  // namespace tunableop
