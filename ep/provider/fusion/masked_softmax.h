// What attention makes of its scores: scaled, masked, softmax over the last dimension.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "provider/fusion/fusion.h"

namespace tunableop {

// Nodes of a GraphIndex: out = softmax(x * scale + mask), or with flags where x * scale counts and
// where a number takes its place.
struct MaskedSoftmaxParts {
  ValueView x;
  ValueView mask;  // absent: none
  double scale = 1.0;
  bool flags = false;     // the mask is of bool
  bool inverted = false;  // x * scale counts where a flag is false
  double hidden = 0;      // what counts where it does not
  std::string_view out;
  std::vector<size_t> members;

  const std::vector<size_t>& nodes() const noexcept { return members; }
};

std::optional<MaskedSoftmaxParts> MatchMaskedSoftmax(const GraphIndex& graph, size_t last);

Fusion MaskedSoftmaxFusion() noexcept;

}  // namespace tunableop
