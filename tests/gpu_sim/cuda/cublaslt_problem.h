// From the caller's descriptors to the problem they describe.
#pragma once

#include "cuda/cublaslt_algos.h"

namespace simgpu {

// kSuccess, or the status for a handle that is none, or of another card than the current one.
int CheckHandle(void* handle);
int Describe(const void* descriptor, const void* a, const void* b, const void* c, const void* d,
             LtProblem* problem);

}  // namespace simgpu
