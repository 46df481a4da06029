#include "provider/fusion/attention_match.h"

#include <algorithm>

#include "provider/kernels/element.h"

namespace tunableop {
namespace {

using Order = std::array<size_t, 4>;
constexpr size_t kRank = 4;

// The permutation of a Transpose of four dimensions.
std::optional<Order> OrderOf(const NodeView& node) {
  const std::optional<std::vector<int64_t>> perm = node.Ints("perm");
  if (!perm) return Order{3, 2, 1, 0};
  if (perm->size() != kRank) return std::nullopt;
  Order order{};
  std::array<bool, kRank> seen{};
  for (size_t d = 0; d < kRank; ++d) {
    const int64_t from = (*perm)[d];
    if (from < 0 || from >= static_cast<int64_t>(kRank)) return std::nullopt;
    order[d] = static_cast<size_t>(from);
    seen[order[d]] = true;
  }
  if (std::find(seen.begin(), seen.end(), false) != seen.end()) return std::nullopt;
  return order;
}

class Matcher {
 public:
  Matcher(const GraphIndex& graph, Attention& found) : graph_(graph), found_(found) {}

  bool Match(size_t last) {
    size_t product = last;
    if (Is(graph_, last, "Transpose")) {
      const std::optional<Order> order = OrderOf(graph_.node(last));
      if (order != Order{0, 2, 1, 3}) return false;
      const std::optional<size_t> above = Inside(Input(last, 0), "MatMul");
      if (!above) return false;
      found_.tokens_outside = true;
      found_.all.push_back(last);
      product = *above;
    }
    if (!Is(graph_, product, "MatMul")) return false;
    found_.all.push_back(product);
    const std::optional<size_t> softmax = Inside(Input(product, 0), "Softmax");
    if (!softmax || !OverLast(*softmax)) return false;
    found_.all.push_back(*softmax);
    std::optional<size_t> scores = Above(*softmax);
    if (!scores) return false;
    if (!TakeMask(scores) || !TakeScale(scores)) return false;
    if (!Is(graph_, *scores, "MatMul")) return false;
    found_.all.push_back(*scores);
    TakeOperand(Input(*scores, 0), true, found_.q);
    TakeOperand(Input(*scores, 1), false, found_.k);
    TakeOperand(Input(product, 1), true, found_.v);
    if (!Fits()) return false;
    TakeProjections();
    return true;
  }

 private:
  const ValueView& Input(size_t node, size_t i) const { return graph_.node(node).inputs()[i]; }

  // The node of that operator that makes the value, which nobody else reads.
  std::optional<size_t> Inside(const ValueView& value, std::string_view op) const {
    if (!graph_.OnlyConsumer(value.name)) return std::nullopt;
    return ProducerOf(graph_, value.name, op);
  }
  // Of any operator, for the first input.
  std::optional<size_t> Above(size_t node, size_t input = 0) const {
    const std::string_view value = Input(node, input).name;
    return graph_.OnlyConsumer(value) ? graph_.Producer(value) : std::nullopt;
  }

  bool OverLast(size_t softmax) const {
    const NodeView& node = graph_.node(softmax);
    constexpr int kOneDimension = 13;
    const int64_t axis = node.Int("axis", node.version() < kOneDimension ? 1 : -1);
    return axis == -1 || axis == static_cast<int64_t>(kRank) - 1;
  }

  // Add, or Where with a constant, on the way up from `scores`, which is moved above it. False:
  // there is one that does not fit.
  bool TakeMask(std::optional<size_t>& scores) {
    if (Is(graph_, *scores, "Where")) return TakeWhere(scores);
    if (!Is(graph_, *scores, "Add")) return true;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const std::optional<size_t> above = Above(*scores, side);
      if (!above || !LeadsToProduct(*above)) continue;
      const ValueView& mask = Input(*scores, 1 - side);
      if (mask.type != Input(*scores, side).type) return false;
      found_.mask = mask;
      found_.all.push_back(*scores);
      scores = above;
      return true;
    }
    return false;
  }

  bool TakeWhere(std::optional<size_t>& scores) {
    for (const size_t side : {size_t{1}, size_t{2}}) {
      const std::optional<size_t> above = Above(*scores, side);
      const std::optional<double> fill = Input(*scores, 3 - side).ConstantNumber();
      if (!above || !fill || Input(*scores, 3 - side).dims.size() > kRank ||
          !LeadsToProduct(*above)) {
        continue;
      }
      found_.mask = Input(*scores, 0);
      found_.mask_is =
          side == 1 ? device::AttentionMask::kKeepsTrue : device::AttentionMask::kKeepsFalse;
      found_.fill = static_cast<float>(*fill);
      found_.all.push_back(*scores);
      scores = above;
      return true;
    }
    return false;
  }

  bool LeadsToProduct(size_t node) const {
    if (Is(graph_, node, "MatMul")) return true;
    if (!Is(graph_, node, "Mul") && !Is(graph_, node, "Div")) return false;
    const std::optional<ScalarOperand> scalar = ScalarOf(graph_, node);
    const std::optional<size_t> above = scalar ? Above(node, scalar->other) : std::nullopt;
    return above && Is(graph_, *above, "MatMul");
  }

  // What a node multiplies by, if that is one number.
  std::optional<ScalarOperand> FactorOf(size_t node) const {
    const bool divides = Is(graph_, node, "Div");
    if (!divides && !Is(graph_, node, "Mul")) return std::nullopt;
    std::optional<ScalarOperand> scalar = ScalarOf(graph_, node);
    if (!scalar || Input(node, scalar->at).dims.size() > kRank) return std::nullopt;
    if (divides) {
      if (scalar->at != 1) return std::nullopt;
      scalar->value = 1.0 / scalar->value;
    }
    return scalar;
  }

  bool TakeScale(std::optional<size_t>& scores) {
    if (Is(graph_, *scores, "MatMul")) return true;
    const std::optional<ScalarOperand> factor = FactorOf(*scores);
    if (!factor) return false;
    const std::optional<size_t> above = Above(*scores, factor->other);
    if (!above) return false;
    found_.scale *= static_cast<float>(factor->value);
    found_.all.push_back(*scores);
    scores = above;
    return true;
  }

  // What is transposed and scaled on its way into a product, as far as nobody else reads it.
  // `vectors`: dimension 3 is a vector, which must be one in memory, too.
  void TakeOperand(const ValueView& value, bool vectors, Attention::Operand& operand) {
    operand.value = value;
    for (;;) {
      const std::optional<size_t> node = graph_.OnlyConsumer(operand.value.name)
                                             ? graph_.Producer(operand.value.name)
                                             : std::nullopt;
      if (!node) return;
      if (Is(graph_, *node, "Transpose")) {
        const std::optional<Order> order = OrderOf(graph_.node(*node));
        if (!order) return;
        Order whole{};
        for (size_t d = 0; d < kRank; ++d) whole[d] = (*order)[operand.order[d]];
        if (vectors && whole[3] != 3) return;
        operand.order = whole;
        operand.value = Input(*node, 0);
      } else if (const std::optional<ScalarOperand> factor = FactorOf(*node);
                 factor && &operand != &found_.v) {
        found_.scale *= static_cast<float>(factor->value);
        operand.value = Input(*node, factor->other);
      } else {
        return;
      }
      found_.all.push_back(*node);
    }
  }

  bool Fits() {
    for (const Attention::Operand* operand : {&found_.q, &found_.k, &found_.v}) {
      if (operand->value.dims.size() != kRank || operand->value.type != found_.type()) return false;
    }
    found_.size = found_.q.value.dims[found_.q.order[3]];
    if (found_.size < 1 || found_.size > device::kMostAttentionSize) return false;
    if (found_.k.order[2] != 3) return false;
    if (found_.k.value.dims[found_.k.order[2]] != found_.size) return false;
    if (found_.v.value.dims[found_.v.order[3]] != found_.size) return false;
    if (!found_.mask) return true;
    // A mask of which nothing is known may have more dimensions than the scores.
    const bool known = found_.mask->constant || !found_.mask->dims.empty();
    return known && found_.mask->dims.size() <= kRank;
  }

  // All three, or none.
  void TakeProjections() {
    const std::array<const Attention::Operand*, Projections::kCount> operands{&found_.q, &found_.k,
                                                                              &found_.v};
    const std::array<Order, Projections::kCount> orders{Order{0, 2, 1, 3}, Order{0, 2, 3, 1},
                                                        Order{0, 2, 1, 3}};
    Projections projections;
    std::vector<size_t> nodes;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i]->order != orders[i] ||
          !TakeProjection(operands[i]->value, i, projections, nodes)) {
        return;
      }
    }
    found_.projections = std::move(projections);
    found_.all.insert(found_.all.end(), nodes.begin(), nodes.end());
  }

  bool TakeProjection(const ValueView& value, size_t i, Projections& projections,
                      std::vector<size_t>& nodes) {
    const std::optional<size_t> reshape = Inside(value, "Reshape");
    if (!reshape) return false;
    std::optional<size_t> product = Above(*reshape);
    if (!product) return false;
    nodes.push_back(*reshape);
    if (Is(graph_, *product, "Add")) {
      const size_t add = *product;
      product = std::nullopt;
      for (const size_t side : {size_t{0}, size_t{1}}) {
        if (!Input(add, side).constant || Input(add, side).dims.size() != 1) continue;
        projections.biases[i] = Input(add, side);
        product = Above(add, 1 - side);
      }
      if (!product) return false;
      nodes.push_back(add);
    }
    if (!Is(graph_, *product, "MatMul")) return false;
    nodes.push_back(*product);
    const ValueView& x = Input(*product, 0);
    const ValueView& weight = Input(*product, 1);
    if (!weight.constant || weight.dims.size() != 2 || weight.dims[0] < 1 || x.dims.size() != 3 ||
        x.type != weight.type || x.type != found_.type()) {
      return false;
    }
    const ValueView& bias = projections.biases[i];
    if (bias.present() && (bias.dims[0] != weight.dims[1] || bias.type != x.type)) return false;
    projections.weights[i] = weight;
    projections.names[i] = graph_.node(*product).name();
    if (i == 0) projections.x = x;
    if (x.name != projections.x.name || bias.present() != projections.biased() ||
        weight.dims[0] != projections.weights[0].dims[0]) {
      return false;
    }
    return SplitsColumns(*reshape, x, weight.dims[1], found_.heads[i]);
  }

  // Whether [a, b, columns] becomes [a, b, heads, size].
  bool SplitsColumns(size_t reshape, const ValueView& x, int64_t columns, int64_t& heads) const {
    const std::optional<std::vector<int64_t>> shape = Input(reshape, 1).ConstantInts();
    if (!shape || shape->size() != kRank || graph_.node(reshape).Int("allowzero", 0) != 0) {
      return false;
    }
    size_t free = 0;
    for (const size_t d : {size_t{0}, size_t{1}}) {
      const int64_t size = (*shape)[d];
      if (size == -1) ++free;
      if (size > 0 && size != x.dims[d]) return false;
    }
    heads = (*shape)[2];
    return free <= 1 && heads > 0 && (*shape)[3] == found_.size && heads * found_.size == columns;
  }

  const GraphIndex& graph_;
  Attention& found_;
};

}  // namespace

const char* Attention::Family() const noexcept {
  return device::AttentionTilesFamily(ModuleType(type()), size, /*tf32=*/true);
}

std::optional<Attention> MatchAttention(const GraphIndex& graph, size_t last) {
  Attention found;
  if (!Matcher(graph, found).Match(last)) return std::nullopt;
  return found;
}

}  // namespace tunableop
