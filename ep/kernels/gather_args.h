// The arguments of the kernels that pick elements by indices.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[o, j, c] = x[o, indices[j], c]: x is [outer, axis, inner], the output [outer, picked, inner].
// Where `packed` is set, `inner` counts packs of kPackOf<T0> elements.
struct GatherArgs {
  const void* x;
  const void* indices;
  void* out;
  UInt32 packed;
  UInt32 wide;  // the output has 2^31 elements (or packs) and more
  Int64 outer;
  Int64 axis;
  Int64 picked;
  Int64 inner;
  Divisor by_inner;
  Divisor by_picked;
};

// out[i] = x[where i is, but along the axis where indices[i] says]. `shape`: of indices and output,
// its strides those of x, with 0 along the axis.
struct GatherElementsArgs {
  const void* x;
  const void* indices;
  void* out;
  Int64 axis;         // elements along it in x
  Int64 axis_stride;  // in x
  Strided<1> shape;
};

// out[i, c] = x[indices[i, ...], c]: `parts` of an index pick a row of `inner` elements, in each of
// `batches`.
struct GatherNdArgs {
  const void* x;
  const void* indices;
  void* out;
  Int64 rows;  // of the output, in each batch
  Int64 batches;
  Int64 batch;  // elements of x in a batch
  Int64 inner;
  UInt32 parts;
  Int64 sizes[kMaxRank];    // of x along each part of an index
  Int64 strides[kMaxRank];  // of x
};

}  // namespace tunableop::device
