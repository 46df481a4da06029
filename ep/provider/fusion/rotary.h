// Rotary positions as they are written in elementwise operators.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "provider/fusion/fusion.h"

namespace tunableop {

// Nodes of a GraphIndex: out = x * cosines + (second half negated, first half) * sines, with halves
// of the last dimension, which all three have.
struct RotaryParts {
  ValueView x;
  ValueView cosines;
  ValueView sines;
  std::string_view out;
  std::vector<size_t> members;

  const std::vector<size_t>& nodes() const noexcept { return members; }
};

std::optional<RotaryParts> MatchRotary(const GraphIndex& graph, size_t last);

Fusion RotaryFusion() noexcept;

}  // namespace tunableop
