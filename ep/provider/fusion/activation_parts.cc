#include "provider/fusion/activation_parts.h"

#include <algorithm>

namespace tunableop {
namespace {

constexpr double kRootOfHalf = 0.70710678118654752440;
constexpr double kRootOfTwoByPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;
constexpr std::string_view kContrib = "com.microsoft";

// x * f(x), of which node `last` is the last product.
class Chain {
 public:
  Chain(const GraphIndex& graph, size_t last)
      : graph_(graph), type_(graph.node(last).OutputType(0)), last_(last) {}

  std::optional<ActivationParts> Match() {
    const Factors all = FactorsOf(graph_, last_);
    if (all.values.size() != 2 || !IsFloating(type_)) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      nodes_ = all.nodes;
      x_ = all.values[i];
      const std::string_view other = all.values[1 - i];
      ActivationParts parts;
      if (IsLogistic(other, all.scale, parts.alpha)) {
        parts.curve = Curve::kSigmoid;
      } else if (IsHalfOfOneAnd(other, all.scale, "Erf")) {
        parts.curve = Curve::kGelu;
      } else if (IsHalfOfOneAnd(other, all.scale, "Tanh")) {
        parts.curve = Curve::kGeluTanh;
      } else {
        continue;
      }
      const ValueView* x = ViewOf(graph_, x_);
      parts.out = graph_.node(last_).outputs()[0].name;
      if (x == nullptr || x->type != type_ || !Closed(graph_, nodes_, {parts.out})) continue;
      parts.x = *x;
      parts.members = nodes_;
      return parts;
    }
    return std::nullopt;
  }

 private:
  bool IsNear(double value, double expected) const { return Near(value, expected, type_); }

  // scale * x ^ count.
  bool IsPowerOfX(const Factors& factors, size_t count, double scale) {
    if (factors.values.size() != count || !IsNear(factors.scale, scale)) return false;
    if (!std::all_of(factors.values.begin(), factors.values.end(),
                     [&](std::string_view value) { return value == x_; })) {
      return false;
    }
    Append(nodes_, factors.nodes);
    return true;
  }

  // sigmoid(alpha * x).
  bool IsLogistic(std::string_view value, double scale, double& alpha) {
    const std::optional<size_t> sigmoid = ProducerOf(graph_, value, "Sigmoid");
    if (!sigmoid || !graph_.OnlyConsumer(value) || !IsNear(scale, 1.0)) return false;
    const Factors inner = FactorsOf(graph_, graph_.node(*sigmoid).inputs()[0].name);
    if (!IsPowerOfX(inner, 1, inner.scale)) return false;
    nodes_.push_back(*sigmoid);
    alpha = inner.scale;
    return true;
  }

  // 1/2 * (1 + f(x)).
  bool IsHalfOfOneAnd(std::string_view value, double scale, std::string_view op) {
    const std::optional<Shifted> sum = ShiftedOf(graph_, value);
    if (!sum || !IsNear(scale, 0.5) || !IsNear(sum->number, 1.0)) return false;
    const std::optional<size_t> curve = ProducerOf(graph_, sum->value, op);
    if (!curve || !graph_.OnlyConsumer(sum->value)) return false;
    nodes_.push_back(sum->node);
    nodes_.push_back(*curve);
    const std::string_view inside = graph_.node(*curve).inputs()[0].name;
    if (op == "Erf") return IsPowerOfX(FactorsOf(graph_, inside), 1, kRootOfHalf);
    return IsCubic(FactorsOf(graph_, inside));
  }

  // sqrt(2 / pi) * (x + c * x^3), or sqrt(2 / pi) * x * (1 + c * x^2).
  bool IsCubic(const Factors& factors) {
    if (!IsNear(factors.scale, kRootOfTwoByPi)) return false;
    Append(nodes_, factors.nodes);
    if (factors.values.size() == 2) {
      const std::string_view other = factors.values[factors.values[0] == x_ ? 1 : 0];
      const std::optional<Shifted> sum = ShiftedOf(graph_, other);
      if ((factors.values[0] != x_ && factors.values[1] != x_) || !sum ||
          !IsNear(sum->number, 1.0)) {
        return false;
      }
      nodes_.push_back(sum->node);
      return IsPowerOfX(FactorsOf(graph_, sum->value), 2, kCubic);
    }
    if (factors.values.size() != 1) return false;
    const std::optional<size_t> add = ProducerOf(graph_, factors.values[0], "Add");
    if (!add || !graph_.OnlyConsumer(factors.values[0])) return false;
    const std::vector<ValueView>& inputs = graph_.node(*add).inputs();
    nodes_.push_back(*add);
    if (inputs[0].name == x_) return IsPowerOfX(FactorsOf(graph_, inputs[1].name), 3, kCubic);
    return inputs[1].name == x_ && IsPowerOfX(FactorsOf(graph_, inputs[0].name), 3, kCubic);
  }

  const GraphIndex& graph_;
  const ONNXTensorElementDataType type_;
  const size_t last_;
  std::string_view x_;
  std::vector<size_t> nodes_;
};

std::optional<ActivationParts> MatchNode(const GraphIndex& graph, size_t last) {
  const NodeView& node = graph.node(last);
  if (node.inputs().empty() || !IsFloating(node.InputType(0)) || node.Has(1)) return std::nullopt;
  ActivationParts parts;
  if (Is(graph, last, "Relu")) {
    parts.curve = Curve::kRelu;
  } else if (Is(graph, last, "Gelu")) {
    parts.curve = node.String("approximate", "none") == "tanh" ? Curve::kGeluTanh : Curve::kGelu;
  } else if (node.domain() == kContrib && node.op() == "Gelu") {
    parts.curve = Curve::kGelu;
  } else if (node.domain() == kContrib && node.op() == "FastGelu") {
    parts.curve = Curve::kGeluTanh;
  } else if (node.domain() == kContrib && node.op() == "QuickGelu") {
    parts.curve = Curve::kSigmoid;
    parts.alpha = node.Float("alpha", 1.702F);
  } else if (Is(graph, last, "Swish")) {
    parts.curve = Curve::kSigmoid;
    parts.alpha = node.Float("alpha", 1.0F);
  } else {
    return std::nullopt;
  }
  parts.x = node.inputs()[0];
  parts.out = node.outputs()[0].name;
  parts.members = {last};
  return parts;
}

}  // namespace

const char* EntryOf(Curve curve) noexcept {
  switch (curve) {
    case Curve::kRelu:
      return "bias_relu";
    case Curve::kGelu:
      return "bias_gelu";
    case Curve::kGeluTanh:
      return "bias_gelu_tanh";
    case Curve::kSigmoid:
      return "bias_quick_gelu";
  }
  return "";
}

std::optional<ActivationParts> MatchCurve(const GraphIndex& graph, size_t last) {
  std::optional<ActivationParts> parts = MatchNode(graph, last);
  return parts ? parts : Chain(graph, last).Match();
}

std::optional<ActivationParts> MatchActivation(const GraphIndex& graph, size_t last) {
  return Chain(graph, last).Match();
}

std::optional<ActivationParts> MatchBiasActivation(const GraphIndex& graph, size_t last) {
  std::optional<ActivationParts> parts = MatchCurve(graph, last);
  const std::optional<size_t> add = parts ? ProducerOf(graph, parts->x.name, "Add") : std::nullopt;
  if (!add) return std::nullopt;
  const std::vector<ValueView>& inputs = graph.node(*add).inputs();
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (!IsRowOf(inputs[i], inputs[1 - i])) continue;
    parts->bias = inputs[i];
    parts->x = inputs[1 - i];
    parts->members.push_back(*add);
    if (Closed(graph, parts->members, {parts->out})) return parts;
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<ActivationParts> MatchGatedActivation(const GraphIndex& graph, size_t last) {
  if (!Is(graph, last, "Mul")) return std::nullopt;
  const std::vector<ValueView>& inputs = graph.node(last).inputs();
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const std::optional<size_t> maker = graph.Producer(inputs[i].name);
    if (!maker || !graph.OnlyConsumer(inputs[i].name)) continue;
    std::optional<ActivationParts> parts = MatchCurve(graph, *maker);
    const ValueView& gate = inputs[1 - i];
    if (!parts || gate.name == parts->x.name || gate.dims.empty() ||
        gate.dims.size() != parts->x.dims.size()) {
      continue;
    }
    parts->gate = gate;
    parts->out = graph.node(last).outputs()[0].name;
    parts->members.push_back(last);
    if (Closed(graph, parts->members, {parts->out})) return parts;
  }
  return std::nullopt;
}

}  // namespace tunableop
