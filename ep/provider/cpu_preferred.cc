#include "provider/cpu_preferred.h"

#include <algorithm>

namespace tunableop {
namespace {

constexpr int64_t kSmallConstant = 100;  // elements; ONNX Runtime's limit

bool IsSmallConstant(const ValueView& value) noexcept {
  if (!value.constant) return false;
  int64_t elements = 1;
  for (const int64_t dim : value.dims) elements *= dim;
  return elements <= kSmallConstant;
}

bool IsHalf(const ValueView& value) noexcept {
  return value.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
         value.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
}

bool Bit(uint32_t bits, size_t at) noexcept { return at < 32 && (bits >> at & 1U) != 0; }

using Names = std::unordered_set<std::string_view>;

bool BelongsOnHost(const PlacedNode& node, const Names& on_host, const Names& graph_inputs) {
  bool reads_host = false;
  const std::vector<ValueView>& inputs = node.view->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueView& value = inputs[i];
    if (!value.present()) continue;
    if (IsHalf(value)) return false;  // the CPU has few kernels for these
    // One that its kernel here reads from the host's memory anyway is no reason for either side.
    if (Bit(node.host_inputs, i)) continue;
    if (on_host.contains(value.name)) {
      reads_host = true;
    } else if (!IsSmallConstant(value) && !graph_inputs.contains(value.name)) {
      return false;
    }
  }
  return reads_host;
}

}  // namespace

std::vector<bool> CpuPreferred(std::span<const PlacedNode> nodes, const Names& graph_inputs) {
  std::vector<bool> preferred(nodes.size(), false);
  Names on_host;  // values that are made in the host's memory, of those that matter
  // In the graph's order every producer comes before its consumers: once is enough.
  for (size_t at = 0; at < nodes.size(); ++at) {
    const PlacedNode& node = nodes[at];
    const std::vector<ValueView>& outputs = node.view->outputs();
    if (node.on_cpu || (node.ours && node.may_leave)) {
      preferred[at] = BelongsOnHost(node, on_host, graph_inputs);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].present()) continue;
      if (preferred[at] || (node.ours && Bit(node.host_outputs, i))) {
        on_host.insert(outputs[i].name);
      }
    }
  }
  return preferred;
}

}  // namespace tunableop
