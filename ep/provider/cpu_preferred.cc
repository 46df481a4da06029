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

// Reads nothing from the card's memory, and leaves what it makes there.
bool IsMaker(const PlacedNode& node) {
  if (!node.ours || !node.may_leave || node.host_inputs == 0 || node.host_outputs != 0) {
    return false;
  }
  const std::vector<ValueView>& inputs = node.view->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].present() && !Bit(node.host_inputs, i)) return false;
  }
  return true;
}

// `makers`: those that are left to the CPU.
std::vector<bool> PreferredWith(std::span<const PlacedNode> nodes, const std::vector<bool>& makers,
                                const Names& graph_inputs) {
  std::vector<bool> preferred(nodes.size(), false);
  Names on_host;  // values that are made in the host's memory, of those that matter
  // In the graph's order every producer comes before its consumers: once is enough.
  for (size_t at = 0; at < nodes.size(); ++at) {
    const PlacedNode& node = nodes[at];
    const std::vector<ValueView>& outputs = node.view->outputs();
    if (node.on_cpu || (node.ours && node.may_leave)) {
      preferred[at] = makers[at] || BelongsOnHost(node, on_host, graph_inputs);
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

bool Gives(const PlacedNode& node, const Names& wanted) {
  const std::vector<ValueView>& outputs = node.view->outputs();
  return std::any_of(outputs.begin(), outputs.end(), [&](const ValueView& value) {
    return value.present() && wanted.contains(value.name);
  });
}

// Values that are read on the host, or become such.
Names WantedOnHost(std::span<const PlacedNode> nodes, const std::vector<bool>& preferred) {
  Names wanted;
  for (size_t at = nodes.size(); at-- > 0;) {
    const PlacedNode& node = nodes[at];
    const bool ours = node.ours && !preferred[at];
    const bool all = node.on_cpu || (preferred[at] && Gives(node, wanted));
    const std::vector<ValueView>& inputs = node.view->inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].present()) continue;
      if (all || (ours && Bit(node.host_inputs, i))) wanted.insert(inputs[i].name);
    }
  }
  return wanted;
}

}  // namespace

std::vector<bool> CpuPreferred(std::span<const PlacedNode> nodes, const Names& graph_inputs) {
  std::vector<bool> makers(nodes.size(), false);
  for (size_t at = 0; at < nodes.size(); ++at) makers[at] = IsMaker(nodes[at]);
  // Makers only ever leave the host: this ends.
  for (;;) {
    std::vector<bool> preferred = PreferredWith(nodes, makers, graph_inputs);
    const Names wanted = WantedOnHost(nodes, preferred);
    bool moved = false;
    for (size_t at = 0; at < nodes.size(); ++at) {
      if (!makers[at] || Gives(nodes[at], wanted)) continue;
      makers[at] = false;
      moved = true;
    }
    if (!moved) return preferred;
  }
}

}  // namespace tunableop
