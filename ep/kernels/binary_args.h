// The arguments of the kernels with two operands.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[i] = f(a[i], b[i]), broadcast. `shape` is that of the output; where `packed` is set its
// innermost dimension counts packs of kPackOf<T0, T1> elements, and an operand is there either
// contiguous or the same everywhere (stride 0).
struct BinaryArgs {
  const void* a;
  const void* b;
  void* out;
  UInt32 packed;
  Strided<2> shape;
};

}  // namespace tunableop::device
