// One native kernel made ready for one problem.
#pragma once

#include "backends/cpu/kernel_config.h"
#include "backends/cpu/work_division.h"
#include "gemm/backend.h"

namespace tunableop::cpu {

// Any fp32 problem of exact precision, in every layout that Problem can express.
bool NativeSupports(const Problem& problem) noexcept;

// Can sums along k be formed straight from memory? One column of C whose A and B are contiguous
// along k, or one row of C with a transposed B.
bool DotSupports(const Problem& problem) noexcept;

class NativePlan final : public Plan {
 public:
  // Precondition: NativeSupports(problem); DotSupports(Flattened(problem)) if config.dot.
  NativePlan(const Problem& problem, const KernelConfig& config) noexcept;

  Status Run(const Operands& operands, Executor& executor) const noexcept override;

 private:
  // False: out of memory.
  bool RunPart(const Operands& operands, const Part& part) const noexcept;

  const Problem problem_;  // flattened
  const KernelConfig config_;
  // A dot kernel has one row of elements, its columns, whether C is a row or a column.
  const WorkDivision division_;
};

}  // namespace tunableop::cpu
