// Who makes and who reads each value of a graph: what patterns of nodes are looked for with.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "abi/ort_c_api.h"
#include "gemm/status.h"
#include "provider/node_view.h"

namespace tunableop {

// Nodes are meant by their place in `nodes`. Not changed once made.
class GraphIndex {
 public:
  // Of a whole graph. `nodes`: all of it, in ONNX Runtime's order, which is a topological one; they
  // outlive this.
  static Result<GraphIndex> Of(const OrtGraph* graph, std::span<const NodeView> nodes);

  std::span<const NodeView> nodes() const noexcept { return nodes_; }
  const NodeView& node(size_t i) const noexcept { return nodes_[i]; }

  // The node that makes the value; nullopt: it is an input or a constant.
  std::optional<size_t> Producer(std::string_view value) const noexcept;
  // Those that read it; one that reads it twice is there twice.
  std::span<const size_t> Consumers(std::string_view value) const noexcept;
  // It is an output of the graph, or some subgraph reads it.
  bool Leaves(std::string_view value) const noexcept { return leaves_.contains(value); }
  // The one node that reads it, once; nullopt: there is none, there are more, or it leaves.
  std::optional<size_t> OnlyConsumer(std::string_view value) const noexcept;

 private:
  std::span<const NodeView> nodes_;
  std::unordered_map<std::string_view, size_t> producers_;
  std::unordered_map<std::string_view, std::vector<size_t>> consumers_;
  std::unordered_set<std::string_view> leaves_;
};

// Whether node `i` is this operator of ONNX's own domain.
bool Is(const GraphIndex& graph, size_t i, std::string_view op) noexcept;

// The node of that operator that makes the value; nullopt: something else does.
std::optional<size_t> ProducerOf(const GraphIndex& graph, std::string_view value,
                                 std::string_view op) noexcept;
// The one reader of the value, where it is of that operator.
std::optional<size_t> OnlyConsumerOf(const GraphIndex& graph, std::string_view value,
                                     std::string_view op) noexcept;

// Which of the two inputs of node `i` is a constant of one element, and what it is.
struct ScalarOperand {
  double value;
  size_t at;     // of the constant
  size_t other;  // of what it is applied to
};
std::optional<ScalarOperand> ScalarOf(const GraphIndex& graph, size_t i);

}  // namespace tunableop
