// The arguments of the kernels that move elements.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out[at[1]] = x[at[0]], for each index of `shape`. Where `packed` is set the innermost dimension
// counts packs of kPackOf<T0> elements: of the output it is contiguous, of x that too, or the same
// everywhere (stride 0).
struct CopyArgs {
  const void* x;
  void* out;
  UInt32 packed;
  Strided<2> shape;
};

// Each of many matrices of rows x columns is written transposed. In x a row is contiguous, in the
// output a column is.
struct TiledArgs {
  const void* x;
  void* out;
  Int64 rows;
  Int64 columns;
  Int64 x_stride;    // from a row to the next
  Int64 out_stride;  // from a column to the next
  Divisor row_tiles;
  Divisor column_tiles;
  UInt32 tiles;         // of all matrices
  Strided<2> matrices;  // where each begins, in x and in the output
};

// Rows and columns of a tile, for elements of so many bytes.
#define TUNABLEOP_TILE(bytes) ((bytes) < 4 ? 64U : 32U)

enum class PadMode : UInt32 { kConstant, kEdge, kReflect, kWrap };

// One element of the output for each index of `shape`, whose strides are those of x.
struct PadArgs {
  const void* x;
  void* out;
  Int64 count;
  Int64 before[kMaxRank];   // added in front
  Int64 sizes[kMaxRank];    // of x
  Int64 strides[kMaxRank];  // of x
  Int64 dims[kMaxRank];     // of the output
  UInt64 value;             // the bits of what constant mode puts in
  UInt32 rank;
  PadMode mode;
};

}  // namespace tunableop::device
