// The arguments of the kernels that change the type of elements.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[i] = x[i]. `packed`: both addresses are aligned to kPackOf<T0, T1> elements.
struct CastArgs {
  const void* x;
  void* out;
  Int64 count;
  UInt32 packed;
};

}  // namespace tunableop::device
