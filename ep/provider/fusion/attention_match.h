// Attention as exporters write it: softmax(Q K^T * scale + mask) V, in separate nodes.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/attention_launch.h"
#include "provider/fusion/graph_index.h"
#include "provider/fusion/stacked_products.h"

namespace tunableop {

// Nodes of a GraphIndex. Tensors have four dimensions.
struct Attention {
  // An operand of a product, before the transpositions that belong to the pattern: dimension d of
  // what is multiplied is dimension order[d] of it.
  struct Operand {
    ValueView value;
    std::array<size_t, 4> order{0, 1, 2, 3};
  };

  Operand q;  // as multiplied: [batch, head, query, size]
  Operand k;  // [batch, head, size, key]
  Operand v;  // [batch, head, key, size]
  // Where q, k and v are nothing but products of one tensor, whose columns are heads: those, and
  // how many heads each has.
  std::optional<Projections> projections;
  std::array<int64_t, Projections::kCount> heads{};
  std::optional<ValueView> mask;
  device::AttentionMask mask_is = device::AttentionMask::kAdded;
  float fill = -std::numeric_limits<float>::infinity();
  float scale = 1.0F;
  int64_t size = 0;             // of a vector: known while nodes are claimed
  bool tokens_outside = false;  // of the result: [batch, query, head, size]
  std::vector<size_t> all;

  const std::vector<size_t>& nodes() const noexcept { return all; }
  ONNXTensorElementDataType type() const noexcept { return q.value.type; }
  // Of the kernels on tensor cores; floats are rounded to tf32 there. Null: there is none.
  const char* Family() const noexcept;
};

// `last`: the second product, or the transposition that follows it.
std::optional<Attention> MatchAttention(const GraphIndex& graph, size_t last);

}  // namespace tunableop
