// The arguments of the kernels that choose between two operands.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[i] = condition[i] ? a[i] : b[i], broadcast. `shape`: of the output, for the condition, a and
// b; where `packed` is set its innermost dimension counts packs of kPackOf<T0> elements, and an
// operand is there either contiguous or the same everywhere (stride 0).
struct WhereArgs {
  const void* condition;
  const void* a;
  const void* b;
  void* out;
  UInt32 packed;
  Strided<3> shape;
};

}  // namespace tunableop::device
