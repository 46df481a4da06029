// How the kernels of pool.h are called.
#pragma once

#include <array>

#include "kernels/pool_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// Outermost dimension first; those in front that are not there stay as they are.
struct PoolShape {
  int64_t planes = 1;
  std::array<int64_t, 3> size{1, 1, 1};
  std::array<int64_t, 3> out{1, 1, 1};
  std::array<int64_t, 3> window{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> dilation{1, 1, 1};
  std::array<int64_t, 3> before{0, 0, 0};  // padding; below 0: what is left out
  std::array<int64_t, 3> after{0, 0, 0};
  bool counts_padding = false;  // in averages
};

// `places`: null, or one for each element of `out`. Nothing: 2^30 elements and more in a plane, or
// steps as large.
std::optional<Prepared<PoolArgs>> PreparePool(const void* x, const PoolShape& shape, void* out,
                                              int64_t* places) noexcept;

}  // namespace tunableop::device
