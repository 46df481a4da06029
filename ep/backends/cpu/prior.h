// Which native kernels are worth trying, from the shape alone.
#pragma once

#include <vector>

#include "backends/cpu/kernel_config.h"
#include "gemm/backend.h"
#include "gemm/problem.h"

namespace tunableop::cpu {

// Kernels of one instruction set for `problem`, best guess first, without duplicates. Precondition:
// NativeSupports(problem).
std::vector<KernelConfig> RankedConfigs(const MicroKernels& kernels, const Problem& problem,
                                        CandidateScope scope);

}  // namespace tunableop::cpu
