// The arguments of the kernels that end a layer.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[r, c] = activation(x[r, c] + bias[c]) * gate[r, c]. Null: left out. The output is contiguous.
struct BiasActArgs {
  const void* x;
  const void* bias;
  const void* gate;
  void* out;
  Int64 rows;
  Int64 columns;  // of them packs where `packed` is set
  Int64 x_stride;
  Int64 gate_stride;  // from a row to the next, both in elements
  Divisor by_columns;
  UInt32 packed;  // all that is there can be accessed in packs of kPackOf<T0> elements
  UInt32 wide;    // 2^31 elements (or packs) and more
  double alpha;
};

}  // namespace tunableop::device
