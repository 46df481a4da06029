// How the kernels of cast.h are called.
#pragma once

#include "kernels/cast_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

Prepared<CastArgs> PrepareCast(const void* x, void* out, int64_t count, size_t in_bytes,
                               size_t out_bytes) noexcept;

}  // namespace tunableop::device
