// The arguments of the kernel that lays out what a convolution multiplies.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// For each image of x, [channels, height, width], a matrix: a row for each number of a filter
// (channel, then row, then column of it), a column for each place where the filter is laid, row by
// row. What lies outside of the image is zero.
struct Im2ColArgs {
  const void* x;
  void* out;
  Int64 images;
  Int64 image;   // elements of one
  Int64 matrix;  // elements of one: below 2^31
  Int32 height;
  Int32 width;
  Int32 stride[2];  // down, along
  Int32 dilation[2];
  Int32 pad[2];  // in front
  Divisor by_out_width;
  Divisor by_out_height;
  Divisor by_filter_width;
  Divisor by_filter_height;
};

}  // namespace tunableop::device
