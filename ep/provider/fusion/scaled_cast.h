// A mask as it is made of what says which tokens count: cast, taken from a number, times another.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/cast_launch.h"
#include "provider/fusion/fusion.h"

namespace tunableop {

// Nodes of a GraphIndex: out = (cast(x) + shift) * scale, or (shift - cast(x)) * scale.
struct ScaledCastParts {
  ValueView x;
  ValueView out;
  device::CastScaling scaling;
  std::vector<size_t> members;

  const std::vector<size_t>& nodes() const noexcept { return members; }
};

std::optional<ScaledCastParts> MatchScaledCast(const GraphIndex& graph, size_t last);

Fusion ScaledCastFusion() noexcept;

}  // namespace tunableop
