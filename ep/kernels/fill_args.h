// The arguments of the kernels that write what no input holds.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[i] = bits, of the element's width.
struct FillArgs {
  void* out;
  Int64 count;
  UInt64 bits;
};

// A triangle of each of many matrices of rows x columns; zeros elsewhere. `upper`: what is on the
// diagonal and above it stays, else what is on it and below. The diagonal: column - row ==
// diagonal.
struct TriluArgs {
  const void* x;
  void* out;
  Int64 count;  // of all matrices
  Int64 rows;
  Int64 columns;
  Int64 diagonal;
  UInt32 upper;
};

}  // namespace tunableop::device
