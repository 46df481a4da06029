// Where the operands of a call lie in memory, as bytes from the first element to the last.
#pragma once

#include <cstddef>

#include "gemm/backend.h"
#include "gemm/problem.h"

namespace tunableop {

// Empty (null, 0) for an operand that the problem does not use, and when nothing is computed.
struct Range {
  const void* data = nullptr;
  size_t bytes = 0;
};

struct OperandRanges {
  Range a;
  Range b;     // plain or packed
  Range c;     // whatever beta is; its pointer may be null
  Range bias;  // of an epilogue with one
};

OperandRanges RangesOf(const Problem& problem, const Operands& operands) noexcept;

}  // namespace tunableop
