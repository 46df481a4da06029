// The tables of operators that this provider has kernels for.
#pragma once

#include "abi/ort_c_api.h"
#include "gemm/status.h"

namespace tunableop {

// Makes a registry with the kernels of kernels/ for a session on the CPU, or on a card: the same
// operators in more types, and those that ONNX Runtime puts where data goes to and from a card. The
// caller owns `*registry`.
Status MakeKernelRegistry(const char* provider_name, bool for_card, OrtKernelRegistry** registry);

}  // namespace tunableop
