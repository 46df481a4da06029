// The arguments of the kernel that finds the largest.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// Of x, [outer, axis, inner], the `kept` largest along the axis and where they are, in order; of
// equal ones those that come first.
struct TopKArgs {
  const void* x;
  void* values;
  Int64* places;
  Int64 rows;  // outer * inner
  Int64 axis;
  Int64 kept;
  Int64 inner;
  UInt32 smallest;  // and not the largest
  UInt32 lanes;     // threads of a row: see TeamOf
};

}  // namespace tunableop::device
