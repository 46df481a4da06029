// How the kernels of resize.h are called.
#pragma once

#include <array>

#include "kernels/resize_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// Outermost dimension first; a scale of 1 leaves a dimension alone.
struct ResizeShape {
  DimsView sizes;
  DimsView outs;
  std::span<const float> scales;
  ResizePlace place = ResizePlace::kHalfPixel;
  ResizeRound round = ResizeRound::kPreferFloor;
};

// Nothing: more than kMaxRank dimensions that cannot be merged, or spans of several lengths.
std::optional<Prepared<ResizeArgs>> PrepareResize(const void* x, const ResizeShape& shape,
                                                  void* out) noexcept;

}  // namespace tunableop::device
