// How the kernels of unary.h are called.
#pragma once

#include "kernels/shapes.h"
#include "kernels/unary_args.h"

namespace tunableop::device {

// `alpha`, `beta` (and for clip of integers `low`, `high`) are set by the caller in what it is
// given: leaky_relu, elu: alpha; quick_gelu: alpha; hard_sigmoid, hard_swish: both; isinf: alpha:
// negative ones count, beta: positive ones; clip: alpha the least, beta the most.
Prepared<UnaryArgs> PrepareUnary(const void* x, void* out, int64_t count, size_t in_bytes,
                                 size_t out_bytes) noexcept;

}  // namespace tunableop::device
