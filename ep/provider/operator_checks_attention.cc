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

// `heads`: of a row of queries, and of values; one where they are apart.
std::optional<std::string> SizesOfHeads(int64_t queries, int64_t heads, int64_t values,
                                        int64_t value_heads) {
  const int64_t size =
      std::max(queries / std::max<int64_t>(heads, 1), values / std::max<int64_t>(value_heads, 1));
  if (size <= device::kMostAttentionSize) return std::nullopt;
  return "heads of " + std::to_string(size) + " numbers, and its kernel has at most " +
         std::to_string(device::kMostAttentionSize);
}

}  // namespace

std::optional<std::string> AttentionOfOthers(const NodeView& node) {
  if (node.Float("softcap", 0.0F) != 0.0F) return "softcap has no kernel";
  if (node.Gives(3)) return "scores as an output have no kernel";
  if (std::optional<std::string> why = OtherTypes(node, {1, 2, 4, 5})) return why;
  if (std::optional<std::string> why = Given(node, {6})) return why;
  if (node.Has(4) != node.Has(5)) return "a past of only one of keys and values has no kernel";
  if (node.InputType(3) != ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL) {
    if (std::optional<std::string> why = OtherTypes(node, {3})) return why;
  }
  const bool joined = RankOf(node, 0) == 3;
  return SizesOfHeads(WidthOf(node, 0), joined ? node.Int("q_num_heads", 1) : 1, WidthOf(node, 2),
                      joined ? node.Int("kv_num_heads", 1) : 1);
}

std::optional<std::string> GroupedOfOthers(const NodeView& node) {
  if (node.Gives(3)) return "scores as an output have no kernel";
  if (node.Int("local_window_size", -1) != -1 && node.Has(10)) {
    return "a local window beside an attention_bias has no kernel";
  }
  for (const char* quantized : {"k_quant_type", "v_quant_type"}) {
    if (node.String(quantized, "NONE") != "NONE") return "a quantized past has no kernel";
  }
  if (std::optional<std::string> why = Given(node, {12, 13})) return why;
  if (std::optional<std::string> why = OtherTypes(node, {1, 2, 3, 4, 7, 8, 10, 11})) return why;
  if (node.Has(1) != node.Has(2)) return "only one of keys and values has no kernel";
  const bool rotates = node.Int("do_rotary", 0) != 0;
  if (rotates && !(node.Has(7) && node.Has(8))) return "do_rotary without caches";
  const int64_t heads =
      node.Int("num_heads", 1) + (node.Has(1) ? 0 : 2 * node.Int("kv_num_heads", 0));
  return SizesOfHeads(WidthOf(node, 0), heads, 0, 1);
}

std::optional<std::string> MultiHeadOfOthers(const NodeView& node) {
  if (node.Gives(3)) return "scores as an output have no kernel";
  if (std::optional<std::string> why = OtherTypes(node, {1, 2, 3, 5, 6, 7})) return why;
  if (std::optional<std::string> why = Given(node, {8, 9})) return why;
  if (node.Has(6) != node.Has(7)) return "a past of only one of keys and values has no kernel";
  if (RankOf(node, 4) > 3) {
    return "a key_padding_mask of " + std::to_string(RankOf(node, 4)) + " dimensions has no kernel";
  }
  if (node.Has(3) && (RankOf(node, 0) > 3 || RankOf(node, 1) > 3 || RankOf(node, 2) > 3)) {
    return "a bias of heads that are apart already has no kernel";
  }
  if (!node.Has(1) && RankOf(node, 0) != 5) return "queries without keys have no kernel";
  const int64_t heads = node.Int("num_heads", 1);
  return SizesOfHeads(WidthOf(node, 0), RankOf(node, 0) == 5 ? 1 : heads, WidthOf(node, 2),
                      RankOf(node, 2) == 4 ? 1 : heads);
}

std::optional<std::string> ProjectedOfOthers(const NodeView& node) {
  if (node.HasAttribute("qkv_hidden_sizes")) return "qkv_hidden_sizes have no kernel";
  if (node.Int("do_rotary", 0) != 0) return "do_rotary has no kernel";
  if (node.Gives(1)) return "a present as an output has no kernel";
  if (std::optional<std::string> why = OtherTypes(node, {1, 2, 5})) return why;
  if (std::optional<std::string> why = Given(node, {4, 6})) return why;
  const size_t rank = RankOf(node, 3);
  if (rank > 3) return "a mask of " + std::to_string(rank) + " dimensions has no kernel";
  return SizesOfHeads(WidthOf(node, 1), 3 * node.Int("num_heads", 1), 0, 1);
}

}  // namespace tunableop
