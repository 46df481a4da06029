// How the kernels of softmax.h are called.
#pragma once

#include <limits>

#include "kernels/rows.h"
#include "kernels/softmax_args.h"

namespace tunableop::device {

struct SoftmaxTensors {
  const void* x = nullptr;
  DimsView x_dims;             // rows are of the last dimension
  const void* mask = nullptr;  // null: none
  DimsView mask_dims;          // broadcast to those of x
  void* out = nullptr;
};

struct SoftmaxOptions {
  float scale = 1.0F;
  // Where a mask of flags is false (true, if `inverted`), what takes the place of x * scale.
  float hidden = -std::numeric_limits<float>::infinity();
  bool inverted = false;
  bool log = false;
  bool causal = false;  // matrices are of the last two dimensions
  int64_t past = 0;     // so many columns more are seen by each row
};

// `out` may be the memory of x. `bytes`, `mask_bytes`: of one element. Nothing: the mask cannot be
// broadcast, or is too large, or there are 2^30 rows and more.
std::optional<Prepared<SoftmaxArgs>> PrepareSoftmax(const SoftmaxTensors& tensors,
                                                    const SoftmaxOptions& options, size_t bytes,
                                                    size_t mask_bytes) noexcept;

// x is [outer, columns, inner].
Prepared<SoftmaxInnerArgs> PrepareSoftmaxInner(const void* x, void* out, int64_t outer,
                                               int64_t columns, int64_t inner, bool log) noexcept;

}  // namespace tunableop::device
