// What a model begins with: rows picked out of tables, their sum, its norm.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "provider/fusion/fusion.h"
#include "provider/fusion/norm_parts.h"

namespace tunableop {

// Nodes of a GraphIndex: a norm of the sum of one to three parts, one of them picked at least.
struct EmbeddingParts {
  struct Part {
    ValueView table;   // rows; without places a tensor as it is
    ValueView places;  // absent: none
  };
  std::vector<Part> parts;
  NormParts norm;  // its x is the sum, which others may read

  const std::vector<size_t>& nodes() const noexcept { return norm.members; }
};

std::optional<EmbeddingParts> MatchEmbedding(const GraphIndex& graph, size_t last);

Fusion EmbeddingFusion() noexcept;

}  // namespace tunableop
