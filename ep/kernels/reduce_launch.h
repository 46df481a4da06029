// How the kernels of reduce.h are called.
#pragma once

#include "kernels/reduce_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// `reduced` has an entry for each dimension of x: whether it is reduced. Results are in the order
// of the others. Nothing: too many dimensions are left that cannot be merged, or 2^30 results and
// more.
std::optional<Prepared<ReduceArgs>> PrepareReduce(const void* x, DimsView x_dims,
                                                  std::span<const bool> reduced, void* out,
                                                  size_t bytes) noexcept;

// `axis`: not negative.
Prepared<CumSumArgs> PrepareCumSum(const void* x, DimsView x_dims, size_t axis, bool exclusive,
                                   bool reverse, void* out) noexcept;

Prepared<ArgArgs> PrepareArg(const void* x, DimsView x_dims, size_t axis, bool last,
                             int64_t* out) noexcept;

}  // namespace tunableop::device
