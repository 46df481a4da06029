// How the kernels of gather.h are called. `bytes` is of one element of x.
#pragma once

#include "kernels/gather_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// `axis`: not negative. `picked`: how many indices there are.
Prepared<GatherArgs> PrepareGather(const void* x, DimsView x_dims, size_t axis, const void* indices,
                                   int64_t picked, void* out, size_t bytes) noexcept;

// Nothing: the indices' shape does not fit that of x, or too many dimensions are left.
std::optional<Prepared<GatherElementsArgs>> PrepareGatherElements(const void* x, DimsView x_dims,
                                                                  size_t axis, const void* indices,
                                                                  DimsView indices_dims,
                                                                  void* out) noexcept;

// Nothing: the shapes do not fit, or an index has more than kMaxRank parts.
std::optional<Prepared<GatherNdArgs>> PrepareGatherNd(const void* x, DimsView x_dims,
                                                      size_t batch_dims, const void* indices,
                                                      DimsView indices_dims, void* out) noexcept;

}  // namespace tunableop::device
