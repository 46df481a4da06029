// The arguments of the kernel that counts.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[i] = start + i * delta: the first two of floating point, the others of integers.
struct RangeArgs {
  void* out;
  Int64 count;
  double start;
  double delta;
  Int64 whole_start;
  Int64 whole_delta;
};

}  // namespace tunableop::device
