#include "provider/fusion/graph_index.h"

#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

// Names of the values that subgraphs of the node read from around it.
Status AddOuterReads(const OrtNode* node, std::unordered_set<std::string_view>& names) {
  const OrtApi& api = *Ort().api;
  size_t count = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetNumImplicitInputs(node, &count));
  if (count == 0) return Status::Ok();
  std::vector<const OrtValueInfo*> values(count);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetImplicitInputs(node, values.data(), count));
  for (const OrtValueInfo* value : values) {
    const char* name = nullptr;
    if (value == nullptr) continue;
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetValueInfoName(value, &name));
    if (name != nullptr) names.insert(name);
  }
  return Status::Ok();
}

}  // namespace

Result<GraphIndex> GraphIndex::Of(const OrtGraph* graph, std::span<const NodeView> nodes) {
  const OrtApi& api = *Ort().api;
  GraphIndex index;
  index.nodes_ = nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const ValueView& output : nodes[i].outputs()) {
      if (output.present()) index.producers_.emplace(output.name, i);
    }
    for (const ValueView& input : nodes[i].inputs()) {
      if (input.present()) index.consumers_[input.name].push_back(i);
    }
    TUNABLEOP_RETURN_IF_ERROR(AddOuterReads(nodes[i].node(), index.leaves_));
  }
  size_t count = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetNumOutputs(graph, &count));
  std::vector<const OrtValueInfo*> outputs(count);
  if (count > 0) {
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetOutputs(graph, outputs.data(), count));
  }
  for (const OrtValueInfo* output : outputs) {
    const char* name = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetValueInfoName(output, &name));
    if (name != nullptr) index.leaves_.insert(name);
  }
  return index;
}

std::optional<size_t> GraphIndex::Producer(std::string_view value) const noexcept {
  const auto found = producers_.find(value);
  return found == producers_.end() ? std::nullopt : std::optional(found->second);
}

std::span<const size_t> GraphIndex::Consumers(std::string_view value) const noexcept {
  const auto found = consumers_.find(value);
  return found == consumers_.end() ? std::span<const size_t>() : std::span(found->second);
}

std::optional<size_t> GraphIndex::OnlyConsumer(std::string_view value) const noexcept {
  const std::span<const size_t> readers = Consumers(value);
  if (readers.size() != 1 || Leaves(value)) return std::nullopt;
  return readers.front();
}

bool Is(const GraphIndex& graph, size_t i, std::string_view op) noexcept {
  return graph.node(i).domain().empty() && graph.node(i).op() == op;
}

std::optional<size_t> ProducerOf(const GraphIndex& graph, std::string_view value,
                                 std::string_view op) noexcept {
  const std::optional<size_t> node = graph.Producer(value);
  return node && Is(graph, *node, op) ? node : std::nullopt;
}

std::optional<size_t> OnlyConsumerOf(const GraphIndex& graph, std::string_view value,
                                     std::string_view op) noexcept {
  const std::optional<size_t> node = graph.OnlyConsumer(value);
  return node && Is(graph, *node, op) ? node : std::nullopt;
}

std::optional<ScalarOperand> ScalarOf(const GraphIndex& graph, size_t i) {
  const std::vector<ValueView>& inputs = graph.node(i).inputs();
  if (inputs.size() != 2) return std::nullopt;
  for (const size_t at : {size_t{1}, size_t{0}}) {
    if (const std::optional<double> value = inputs[at].ConstantNumber()) {
      return ScalarOperand{*value, at, 1 - at};
    }
  }
  return std::nullopt;
}

}  // namespace tunableop
