// A product with what follows it: MatMul by a weight, a row of biases that is added, an activation.
#pragma once

#include <cstddef>
#include <optional>

#include "provider/fusion/fusion.h"

namespace tunableop {

// Nodes of a GraphIndex: Y = activation(A x B + bias).
struct Product {
  size_t matmul = 0;
  size_t add = 0;
  std::optional<size_t> relu;
  ValueView a;     // [..., k]
  ValueView b;     // [k, n], constant
  ValueView bias;  // [n], constant

  std::vector<size_t> nodes() const;
};

std::optional<Product> MatchProduct(const GraphIndex& graph, size_t last);

Fusion ProductFusion() noexcept;

}  // namespace tunableop
