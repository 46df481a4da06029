// How the kernels of cast.h are called.
#pragma once

#include "kernels/cast_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

Prepared<CastArgs> PrepareCast(const void* x, void* out, int64_t count, size_t in_bytes,
                               size_t out_bytes) noexcept;

// (sign * x + shift) * scale, behind the cast.
struct CastScaling {
  double sign = 1.0;
  double shift = 0.0;
  double scale = 1.0;
};

// The result is of a floating point type.
Prepared<CastScaledArgs> PrepareCastScaled(const void* x, void* out, int64_t count, size_t in_bytes,
                                           size_t out_bytes, const CastScaling& scaling) noexcept;

}  // namespace tunableop::device
