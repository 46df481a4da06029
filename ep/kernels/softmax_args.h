// The arguments of the softmax kernels.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out = softmax(x * scale + mask) over each row of `columns`.
struct SoftmaxArgs {
  const void* x;
  // Null: none. Of numbers that are added, or flags: where one is false, `hidden` takes the place
  // of x * scale.
  const void* mask;
  void* out;
  Int64 columns;
  float scale;
  float hidden;
  UInt32 inverted;   // flags are true where `hidden` counts
  UInt32 log;        // the logarithm of it
  UInt32 causal;     // row r of a matrix of `queries` sees its first r + 1 + past columns
  UInt32 mask_step;  // 1, or 0: one element of the mask for the whole row
  UInt32 packed;     // rows can be accessed in packs, those of the mask too
  UInt32 lanes;      // threads of a row: see TeamOf
  Int64 past;
  Divisor queries;
  // From the row's number to the element at which the mask's row begins. `count`: of rows.
  Strided<1> rows;
};

// The same over a dimension that is not the last: x is [outer, columns, inner].
struct SoftmaxInnerArgs {
  const void* x;
  void* out;
  Int64 outer;
  Int64 columns;
  Int64 inner;
  UInt32 log;
};

}  // namespace tunableop::device
