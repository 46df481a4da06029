// The arguments of the kernel that gives columns to tensors of their own.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// x [rows, columns]: its first columns are out0, up to `end0`, the next ones out1, up to `end1`,
// and the rest out2. An output may be null: it is left out. All in packs where `packed`.
struct SplitColumnsArgs {
  const void* x;
  void* out0;
  void* out1;
  void* out2;
  Int64 rows;
  UInt32 columns;
  UInt32 end0;
  UInt32 end1;
  UInt32 packed;
  UInt32 wide;  // there are more than 2^30
  Divisor by_columns;
};

}  // namespace tunableop::device
