// Notices that somebody else writes to the operands of a measurement: then no answer can be judged.
#pragma once

#include <cstdint>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "tuner/operand_ranges.h"

namespace tunableop {

class OperandWatch {
 public:
  // Remembers a checksum of A, B, the bias, and C where beta is not zero: of all their bytes up to
  // 64 KiB each, of 1024 cache lines spread over larger ones (some 10 us). A change of a few
  // elements of a large operand may be missed, another tensor in its place is not.
  OperandWatch(const Problem& problem, const Operands& operands) noexcept;

  bool Changed() const noexcept { return Sum() != sum_; }

 private:
  uint64_t Sum() const noexcept;

  OperandRanges ranges_;
  uint64_t sum_;
};

}  // namespace tunableop
