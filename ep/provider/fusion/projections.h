// Products of one tensor by three weights, with biases or without: what attention begins with. For
// few rows they are one product, whose columns are then given to three tensors.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "provider/fusion/fusion.h"
#include "provider/fusion/stacked_products.h"

namespace tunableop {

// Nodes of a GraphIndex.
struct ProjectionParts {
  Projections projections;
  std::array<std::string_view, Projections::kCount> outs;
  std::vector<size_t> members;

  const std::vector<size_t>& nodes() const noexcept { return members; }
};

std::optional<ProjectionParts> MatchProjections(const GraphIndex& graph, size_t last);

Fusion ProjectionsFusion() noexcept;

}  // namespace tunableop
