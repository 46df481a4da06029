// The contract between the loop nest, compiled for any machine, and the inner kernels, compiled
// once for each instruction set.
//
// The files that implement it must not let code built for a newer instruction set leak into the
// rest of the library: the linker keeps one copy of every inline function, and if that is the
// AVX-512 copy, an older machine dies in unrelated code. So this header holds plain data only and
// includes no C++ standard header.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tunableop::cpu {

enum Activation : int32_t { kNoActivation = 0, kReluActivation = 1, kGeluActivation = 2 };

// What happens to a finished sum: value = activation(alpha * sum + beta * c + bias).
struct Finish {
  float alpha;
  float beta;          // 0: C is not read
  const float* bias;   // nullptr: none
  int32_t activation;  // enum Activation
};

// A strip of C: `tiles` register tiles below each other, all of the same number of rows (which is
// the index of the function in the table) and `columns` wide.
struct TileArgs {
  const float* a;  // first row; element (i, p) at a[i * lda + p]
  int64_t lda;
  const float* b;  // element (p, j) at b[p * ldb + j]; readable up to whole vectors
  int64_t ldb;     // ignored by kernels with the packed stride built in
  float* c;        // never touched beyond `columns`
  int64_t ldc;
  int64_t k;  // may be 0
  int64_t tiles;
  int64_t columns;   // > (vectors - 1) * width, <= vectors * width
  int64_t prefetch;  // floats ahead of b, kGroupPrefetch only
  // kGroupAhead only: what to fetch into the second-level cache meanwhile. Each step of k moves on
  // by ahead_step bytes, so that several passes over one block of B fetch the next at an even pace.
  const char* ahead;
  int64_t ahead_step;
  Finish finish;  // bias: of the first column
};
using TileFunction = void (*)(const TileArgs& args) noexcept;

// c[i * c_stride] = finish(sum over p of a[i * lda + p] * b[p]) for i in [0, rows).
struct DotArgs {
  const float* a;
  int64_t lda;
  const float* b;
  int64_t k;
  float* c;
  int64_t c_stride;
  int64_t bias_stride;  // 0: one bias for all rows
  int64_t rows;
  Finish finish;
};
using DotFunction = void (*)(const DotArgs& args) noexcept;

// c[i * ldc + j] = activation(c[i * ldc + j] + bias[j]); bias nullptr: none. For libraries that
// only multiply.
using EpilogueFunction = void (*)(float* c, int64_t ldc, int64_t rows, int64_t columns,
                                  const float* bias, int32_t activation) noexcept;

// to[p * width + j] = from[p * from_row + j * from_column] for p in [0, rows), j in [0, columns),
// and 0 for j in [columns, width). One of the two source strides is 1.
struct PackArgs {
  const float* from;
  int64_t from_row;
  int64_t from_column;
  int64_t rows;
  int64_t columns;
  float* to;
  int64_t width;
};
using PackFunction = void (*)(const PackArgs& args) noexcept;

inline constexpr int kMaxTileVectors = 8;
inline constexpr int kMaxTileRows = 16;

// A register tile: rows x vectors.
struct TileShape {
  int32_t rows;
  int32_t vectors;
};
inline constexpr int kPreferredTiles = 5;

// How a tile reaches B.
enum BAccess : int32_t {
  kAnyStride = 0,      // ldb is read at run time
  kGroupStride = 1,    // ldb is kGroupColumns, a compile-time constant (+4 %, measured on Zen 4)
  kGroupPrefetch = 2,  // the same, with software prefetch, for B that streams from memory
  kGroupAhead = 3,     // kGroupStride, fetching the block of B that comes next
  kBAccessCount = 4,
};

struct MicroKernels {
  const char* name;  // "avx512"
  int32_t width;     // floats in a vector
  // The most rows of a tile that is v vectors wide; 0: no such tile.
  int32_t max_rows[kMaxTileVectors + 1];
  // Shapes worth trying for products that are limited by arithmetic, the best first; {0, 0}: no
  // more.
  TileShape preferred[kPreferredTiles];
  TileFunction tile[kBAccessCount][kMaxTileVectors + 1][kMaxTileRows + 1];
  DotFunction dot;
  PackFunction pack;
  EpilogueFunction epilogue;
};

// One for each instruction set that the library was built with.
extern const MicroKernels kSse42Kernels;
extern const MicroKernels kAvx2Kernels;
extern const MicroKernels kAvx512Kernels;
extern const MicroKernels kNeonKernels;

}  // namespace tunableop::cpu
