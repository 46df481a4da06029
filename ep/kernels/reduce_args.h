// The arguments of the kernels that reduce or scan.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[i] = the reduction of x over `reduced`, from where `kept` says that i begins.
struct ReduceArgs {
  const void* x;
  void* out;
  UInt32 packed;    // `reduced` is one contiguous row, which can be accessed in packs
  UInt32 lanes;     // threads of a result: see TeamOf
  Strided<1> kept;  // `count`: of results
  Strided<1> reduced;
};

// out[o, j, c] = the sum of x[o, 0 .. j, c]: both are [outer, axis, inner].
struct CumSumArgs {
  const void* x;
  void* out;
  Int64 outer;
  Int64 axis;
  Int64 inner;
  UInt32 exclusive;  // x[o, j, c] does not count
  UInt32 reverse;    // from the end
};

// out[o, c] = the place of the largest (or smallest) of x[o, 0 .. axis, c].
struct ArgArgs {
  const void* x;
  Int64* out;
  Int64 outer;
  Int64 axis;
  Int64 inner;
  UInt32 last;  // of equal ones the last, not the first
};

}  // namespace tunableop::device
