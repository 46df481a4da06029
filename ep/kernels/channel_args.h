// The arguments of the kernel that scales and shifts channels.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out = (x - mean) / sqrt(variance + epsilon) * scale + shift, with a number of each for every
// channel of x, which is [image, channel, inner]. May be in place.
struct ChannelArgs {
  const void* x;
  void* out;
  const void* scale;
  const void* shift;
  const void* mean;      // null: 0
  const void* variance;  // null: the root is 1
  double epsilon;
  Int64 count;
  Int64 slab;  // elements of whole images, below 2^31: what the y dimension of the grid goes over
  Divisor by_inner;
  Divisor by_channels;
};

}  // namespace tunableop::device
