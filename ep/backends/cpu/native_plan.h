// One native kernel made ready for one problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/kernel_config.h"
#include "gemm/backend.h"

namespace tunableop::cpu {

// Any fp32 problem of exact precision, in every layout that Problem can express.
bool NativeSupports(const Problem& problem) noexcept;

// Can sums along k be formed straight from memory? One column of C whose A and B are contiguous
// along k, or one row of C with a transposed B.
bool DotSupports(const Problem& problem) noexcept;

// A whole batch that shares B and whose A and C follow each other without a gap is one tall matrix.
Problem Flattened(const Problem& problem) noexcept;

class NativePlan final : public Plan {
 public:
  // Precondition: NativeSupports(problem); DotSupports(problem) if config.dot.
  NativePlan(const Problem& problem, const KernelConfig& config) noexcept;

  Status Run(const Operands& operands, Executor& executor) const noexcept override;

 private:
  struct Call;
  // Part `index` of the division into item_parts_ x row_parts_ x column_parts_.
  void RunPart(Call* call, int64_t index) const noexcept;

  const Problem problem_;  // flattened
  const KernelConfig config_;
  int64_t rows_ = 0;     // extent that row parts divide
  int64_t columns_ = 0;  // extent that column parts divide: groups, or elements of a dot kernel
  int64_t item_parts_ = 1;
  int64_t row_parts_ = 1;
  int64_t column_parts_ = 1;
};

}  // namespace tunableop::cpu
