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

// out[i] = (sign * x[i] + shift) * scale, for floating point results.
struct CastScaledArgs {
  CastArgs cast;
  double sign;
  double shift;
  double scale;
};

}  // namespace tunableop::device
