// The arguments of the kernels that pool.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// One number of each place where a window is laid on a plane of x; what is outside does not count.
// Three dimensions, the innermost first; those that are not there are of size one.
struct PoolArgs {
  const void* x;
  void* out;
  Int64* places;  // where the largest are, in all of x; null: not asked for
  Int64 planes;
  Int64 plane;   // elements of one in x
  UInt32 count;  // and in out: below 2^31
  Divisor out_sizes[2];
  Int32 sizes[3];
  Int32 windows[3];
  Int32 strides[3];
  Int32 dilations[3];
  Int32 before[3];  // of padding
  Int32 reach[3];   // where padding ends: an average counts it up to there
  UInt32 counts_padding;
};

}  // namespace tunableop::device
