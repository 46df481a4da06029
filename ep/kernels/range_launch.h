// How the kernel of range.h is called.
#pragma once

#include "kernels/range_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

Prepared<RangeArgs> PrepareRange(void* out, int64_t count, double start, double delta) noexcept;
Prepared<RangeArgs> PrepareWholeRange(void* out, int64_t count, int64_t start,
                                      int64_t delta) noexcept;

}  // namespace tunableop::device
