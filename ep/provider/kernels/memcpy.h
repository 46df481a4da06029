// The operators that ONNX Runtime puts where data goes to and from a card.
#pragma once

#include "abi/ort_c_api.h"

namespace tunableop {

// Registered with ONNX Runtime: OrtKernelCreateFunc.
OrtStatus* CreateMemcpyFromHost(void* state, const OrtKernelInfo* info,
                                OrtKernelImpl** kernel) noexcept;
OrtStatus* CreateMemcpyToHost(void* state, const OrtKernelInfo* info,
                              OrtKernelImpl** kernel) noexcept;

}  // namespace tunableop
