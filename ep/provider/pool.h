// ONNX Runtime's threads: the one place that asks it for them.
#pragma once

#include <cstddef>

#include "abi/ort_c_api.h"

namespace tunableop {

// KernelContext_ParallelFor, one task at a time, so that a late thread does not hold up the others:
// calls task(context, i) for each i in [0, count) and returns when all are done. The caller owns
// the status; if there is one, no task ran. Thread-safe.
OrtStatus* RunOnPool(const OrtKernelContext* kernel, void (*task)(void*, size_t), size_t count,
                     void* context) noexcept;

}  // namespace tunableop
