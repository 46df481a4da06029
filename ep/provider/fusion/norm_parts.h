// Norms of rows, as one operator or as the elementwise ones that exporters write for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "provider/fusion/expression.h"

namespace tunableop {

// Nodes of a GraphIndex: out = (z - mean) / sqrt(variance + epsilon) * gamma + beta over the last
// dimension of z, which is x, or the sum of x and skip.
struct NormParts {
  ValueView x;
  ValueView skip;  // absent: none
  ValueView gamma;
  ValueView beta;        // absent: none
  std::string_view sum;  // z, where it is made here and others may read it
  std::string_view out;
  bool mean = false;  // is subtracted
  double epsilon = 0;
  std::vector<size_t> members;

  const std::vector<size_t>& nodes() const noexcept { return members; }
};

// Whether `last` is the last node of the elementwise form: x - mean (or x), its mean square,
// epsilon that is added, the root, the quotient, gamma, beta. Half precision may be left for fp32
// between the first and the quotient.
std::optional<NormParts> MatchNormChain(const GraphIndex& graph, size_t last);

// Either form.
std::optional<NormParts> MatchNorm(const GraphIndex& graph, size_t last);

// Either form with the sum before it, of two values that are broadcast.
std::optional<NormParts> MatchResidualNorm(const GraphIndex& graph, size_t last);

}  // namespace tunableop
