// The arguments of the kernels that write where indices say.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[where i is, but along the axis where indices[i] says] = updates[i]. `shape`: of indices and
// updates, its strides those of the output, with 0 along the axis.
struct ScatterElementsArgs {
  const void* indices;
  const void* updates;
  void* out;
  Int64 axis;         // elements along it in the output
  Int64 axis_stride;  // in the output
  Strided<1> shape;
};

// out[indices[row, ...], c] = updates[row, c]: `parts` of an index name a row of `inner` elements.
struct ScatterNdArgs {
  const void* indices;
  const void* updates;
  void* out;
  Int64 rows;
  Int64 inner;
  UInt32 parts;
  Int64 sizes[kMaxRank];    // of the output along each part of an index
  Int64 strides[kMaxRank];  // of the output
};

// out[o, d, c] = values[1] where indices[o, c] is d, else values[0].
struct OneHotArgs {
  const void* indices;
  const void* values;
  void* out;
  Int64 depth;
  Int64 inner;
  Int64 count;  // of the output
};

}  // namespace tunableop::device
