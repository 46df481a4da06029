// The loops around the register tile: blocks of k, of rows, groups of columns, tails.
#pragma once

#include <cstdint>

#include "backends/cpu/kernel_config.h"
#include "backends/cpu/work_division.h"
#include "gemm/backend.h"
#include "gemm/problem.h"

namespace tunableop::cpu {

// Computes the rows and column groups of `part` for one batch item. `problem` and `config` fit each
// other (NativePlan checks). Allocates only in the thread's Scratch; false: no memory for that, C
// is unfinished. Thread-safe on disjoint parts of C.
bool RunBlock(const Problem& problem, const KernelConfig& config, const Operands& operands,
              int64_t item, const Part& part) noexcept;

// The same for KernelConfig::dot, where C is one column (n == 1) or one row (m == 1): elements
// [begin, end) of it.
void RunDot(const Problem& problem, const KernelConfig& config, const Operands& operands,
            int64_t item, int64_t begin, int64_t end) noexcept;

}  // namespace tunableop::cpu
