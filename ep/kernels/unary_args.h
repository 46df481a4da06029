// The arguments of the kernels with one operand.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[i] = f(x[i]). `packed`: both addresses are aligned to kPackOf<T0, T1> elements. The
// parameters are what the entry says; `low` and `high` are those of clip for integers.
struct UnaryArgs {
  const void* x;
  void* out;
  Int64 count;
  UInt32 packed;
  double alpha;
  double beta;
  Int64 low;
  Int64 high;
};

}  // namespace tunableop::device
