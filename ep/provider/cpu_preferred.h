// Which nodes are better left to the CPU: those that compute shapes. The rule is ONNX Runtime's
// own GetCpuPreferredNodes, whose helper for plugins logs a warning for each node, and one more for
// nodes that read nothing from the card.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "provider/node_view.h"

namespace tunableop {

// A node of a graph, in the graph's order.
struct PlacedNode {
  const NodeView* view = nullptr;
  bool ours = false;         // will run on the card unless it is better left to the CPU
  bool may_leave = false;    // of ours: may be left to the CPU
  bool on_cpu = false;       // not ours, and nobody's or the CPU provider's
  uint32_t host_inputs = 0;  // bit i: its kernel of ours reads input i from the host's memory
  uint32_t host_outputs = 0;
};

// For each node whether it is to be left to the CPU (or is there anyway, and a part of this): all
// that it reads from the card's memory is made on the host (by such nodes, and those with outputs
// there), or is small and constant, or an input of the graph. Each would cost a copy to the card,
// and often one back.
//
// A node that reads from the host's memory alone (Range, ConstantOfShape) costs no copy on either
// side: it is left to the CPU where what it makes is read on the host in the end, as a shape is.
std::vector<bool> CpuPreferred(std::span<const PlacedNode> nodes,
                               const std::unordered_set<std::string_view>& graph_inputs);

}  // namespace tunableop
