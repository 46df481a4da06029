#include <algorithm>
#include <array>
#include <initializer_list>

#include "kernels/attention_launch.h"
#include "provider/operator_checks.h"
#include "provider/type_name.h"

namespace tunableop {
namespace {

// Of those inputs that are there, one is not of input 0's type.
std::optional<std::string> OtherTypes(const NodeView& node, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs) {
    if (!node.Has(i) || node.InputType(i) == node.InputType(0)) continue;
    return "input " + std::to_string(i) + " of type " + std::string(TypeName(node.InputType(i))) +
           " beside " + std::string(TypeName(node.InputType(0))) + " has no kernel";
  }
  return std::nullopt;
}

std::optional<std::string> Given(const NodeView& node, std::initializer_list<size_t> inputs) {
  for (const size_t i : inputs) {
    if (node.Has(i)) return "input " + std::to_string(i) + " has no kernel";
  }
  return std::nullopt;
}

// The last dimension of an input; 0: not known.
int64_t WidthOf(const NodeView& node, size_t input) {
  if (!node.Has(input) || node.inputs()[input].dims.empty()) return 0;
  return std::max<int64_t>(node.inputs()[input].dims.back(), 0);
}

size_t RankOf(const NodeView& node, size_t input) {
  return node.Has(input) ? node.inputs()[input].dims.size() : 0;
}

std::optional<std::string> SizesOfHeads(const NodeView& node, int64_t size) {
  const bool known = WidthOf(node, 1) > 0 && WidthOf(node, 2) > 0;
  if (known && RankOf(node, 1) == RankOf(node, 2) && WidthOf(node, 1) != WidthOf(node, 2)) {
    return "values of another size than the keys have no kernel";
  }
  if (size <= device::kMostAttentionSize) return std::nullopt;
  return "heads of " + std::to_string(size) + " numbers, and its kernel has at most " +
         std::to_string(device::kMostAttentionSize);
}

std::optional<std::string> Capped(const NodeView& node) {
  if (node.Float("softcap", 0.0F) != 0.0F) return "softcap has no kernel";
  if (node.Gives(3)) return "scores as an output have no kernel";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> AttentionOfOthers(const NodeView& node) {
  if (std::optional<std::string> why = Capped(node)) return why;
  if (std::optional<std::string> why = OtherTypes(node, {1, 2, 4, 5})) return why;
  if (std::optional<std::string> why = Given(node, {6})) return why;
  if (node.Has(4) != node.Has(5)) return "a past of only one of keys and values has no kernel";
  if (node.InputType(3) != ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL) {
    if (std::optional<std::string> why = OtherTypes(node, {3})) return why;
  }
  const int64_t heads = RankOf(node, 0) == 3 ? std::max<int64_t>(node.Int("q_num_heads", 1), 1) : 1;
  return SizesOfHeads(node, WidthOf(node, 0) / heads);
}

std::optional<std::string> GroupedOfOthers(const NodeView& node) {
  if (std::optional<std::string> why = Capped(node)) return why;
  if (node.Int("local_window_size", -1) != -1 && node.Has(10)) {
    return "a local window beside an attention_bias has no kernel";
  }
  if (node.Int("smooth_softmax", 0) > 0) return "smooth_softmax has no kernel";
  for (const char* quantized : {"k_quant_type", "v_quant_type"}) {
    if (node.String(quantized, "NONE") != "NONE") return "a quantized past has no kernel";
  }
  if (std::optional<std::string> why = Given(node, {11, 12, 13})) return why;
  if (std::optional<std::string> why = OtherTypes(node, {1, 2, 3, 4, 7, 8, 10})) return why;
  if (node.Has(1) != node.Has(2)) return "only one of keys and values has no kernel";
  const bool rotates = node.Int("do_rotary", 0) != 0;
  if (rotates && !(node.Has(7) && node.Has(8))) return "do_rotary without caches";
  const int64_t heads =
      node.Int("num_heads", 1) + (node.Has(1) ? 0 : 2 * node.Int("kv_num_heads", 0));
  return SizesOfHeads(node, WidthOf(node, 0) / std::max<int64_t>(heads, 1));
}

std::optional<std::string> MultiHeadOfOthers(const NodeView& node) {
  if (node.Gives(3)) return "scores as an output have no kernel";
  if (std::optional<std::string> why = OtherTypes(node, {1, 2, 3, 5, 6, 7})) return why;
  if (std::optional<std::string> why = Given(node, {8, 9})) return why;
  if (node.Has(6) != node.Has(7)) return "a past of only one of keys and values has no kernel";
  if (RankOf(node, 4) > 2) return "a key_padding_mask of 3 dimensions has no kernel";
  if (node.Has(3) && (RankOf(node, 0) != 3 || RankOf(node, 1) != 3 || RankOf(node, 2) != 3)) {
    return "a bias of heads that are apart already has no kernel";
  }
  if (node.Has(4) && node.Has(5) && RankOf(node, 4) != 1) {
    return "a key_padding_mask beside an attention_bias has no kernel";
  }
  if (!node.Has(1) && RankOf(node, 0) != 5) return "queries without keys have no kernel";
  const int64_t heads = RankOf(node, 0) == 3 ? std::max<int64_t>(node.Int("num_heads", 1), 1) : 1;
  return SizesOfHeads(node, WidthOf(node, 0) / heads);
}

std::optional<std::string> ProjectedOfOthers(const NodeView& node) {
  if (node.HasAttribute("qkv_hidden_sizes")) return "qkv_hidden_sizes have no kernel";
  if (node.Int("do_rotary", 0) != 0) return "do_rotary has no kernel";
  if (node.Gives(1)) return "a present as an output has no kernel";
  if (std::optional<std::string> why = OtherTypes(node, {1, 2, 5})) return why;
  if (std::optional<std::string> why = Given(node, {4, 6})) return why;
  const size_t rank = RankOf(node, 3);
  if (rank > 2) return "a mask of " + std::to_string(rank) + " dimensions has no kernel";
  if (rank == 2 && node.Has(5)) return "a mask beside an attention_bias has no kernel";
  const int64_t heads = 3 * std::max<int64_t>(node.Int("num_heads", 1), 1);
  return SizesOfHeads(node, WidthOf(node, 1) / heads);
}

}  // namespace tunableop
