// The arguments of the kernel that lays out what a convolution multiplies.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// For each image of x, [channels, depth, height, width], a matrix: a row for each number of a
// filter (channel, then layer, row and column of it), a column for each place where the filter is
// laid, row by row. What lies outside of the image is zero.
struct Im2ColArgs {
  const void* x;
  void* out;
  Int64 images;
  Int64 image;    // elements of one
  Int64 matrix;   // elements of one: below 2^31
  Int32 size[3];  // deep, down, along
  Int32 stride[3];
  Int32 dilation[3];
  Int32 pad[3];  // in front
  Divisor by_out[3];
  Divisor by_filter[3];
};

}  // namespace tunableop::device
