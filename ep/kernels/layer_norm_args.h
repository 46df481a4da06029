// The arguments of the normalising kernels.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// z = x + skip + bias; out = (z - mean) / sqrt(variance + epsilon) * gamma + beta over each row of
// `columns`. Pointers that are null are left out.
struct LayerNormArgs {
  const void* x;
  const void* skip;
  const void* bias;   // of one row
  const void* gamma;  // of one row
  const void* beta;   // of one row
  void* out;
  void* sum;       // z
  float* mean;     // one for each row
  float* inverse;  // 1 / sqrt(variance + epsilon), one for each row
  Int64 columns;
  double epsilon;
  UInt32 packed;  // all that is there can be accessed in packs
  UInt32 lanes;   // threads of a row: see TeamOf
  // From the row's number to that of x and skip. `count`: of rows.
  Strided<2> rows;
};

}  // namespace tunableop::device
