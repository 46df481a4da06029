#include "provider/fusion/norm_parts.h"

#include "provider/kernels/axes.h"

namespace tunableop {
namespace {

constexpr ONNXTensorElementDataType kFloat = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;

// Over the last dimension alone, which stays.
bool IsMeanOfRows(const GraphIndex& graph, size_t i) {
  const NodeView& node = graph.node(i);
  if (!Is(graph, i, "ReduceMean") || node.Int("keepdims", 1) != 1) return false;
  std::optional<std::vector<int64_t>> axes = node.Ints("axes");
  if (!axes && node.Has(1)) axes = node.inputs()[1].ConstantInts();
  if (!axes || axes->size() != 1) return false;
  const size_t rank = node.inputs()[0].dims.size();
  return axes->front() == -1 || (rank > 0 && AxisOf(axes->front(), rank) == rank - 1);
}

// Walks up from a norm's last node, and collects what it passes.
class Chain {
 public:
  explicit Chain(const GraphIndex& graph) : graph_(graph) {}

  std::optional<NormParts> Match(size_t last) {
    size_t at = last;
    NormParts parts;
    parts.out = graph_.node(last).outputs()[0].name;
    if (Is(graph_, last, "Add") && !TakeRow(at, parts.beta)) return std::nullopt;
    if (!Is(graph_, at, "Mul") || !TakeRow(at, parts.gamma)) return std::nullopt;
    const ONNXTensorElementDataType type = parts.gamma.type;
    const bool wide = Is(graph_, at, "Cast");  // fp32 inside
    if (wide && !TakeCast(at, type)) return std::nullopt;
    std::string_view centered;
    std::string_view root;
    if (!TakeQuotient(at, centered, root) || !TakeRoot(root, parts.epsilon)) return std::nullopt;
    const std::optional<std::string_view> squared = TakeMeanSquare(root);
    if (!squared) return std::nullopt;
    std::string_view x;
    parts.mean = ProducerOf(graph_, centered, "Sub").has_value();
    if (parts.mean) {
      const std::optional<std::string_view> first = TakeCentered(centered, wide, type);
      const std::optional<std::string_view> second = TakeCentered(*squared, wide, type);
      if (!first || first != second) return std::nullopt;
      x = *first;
    } else {
      x = Source(centered, wide, type);
      if (x != Source(*squared, wide, type)) return std::nullopt;
    }
    const ValueView* view = ViewOf(graph_, x);
    if (view == nullptr || view->type != type || !IsRowOf(parts.gamma, *view)) return std::nullopt;
    parts.x = *view;
    parts.members = nodes_;
    if (!Closed(graph_, nodes_, {parts.out})) return std::nullopt;
    return parts;
  }

 private:
  void Take(size_t i) {
    for (const size_t known : nodes_) {
      if (known == i) return;
    }
    nodes_.push_back(i);
  }

  bool HasNumber(size_t i, size_t at, double value) const {
    const std::optional<ScalarOperand> number = NumberBeside(graph_, i);
    return number && number->at == at && number->value == value;
  }

  // Node `at` applies a row of constants; it becomes the node that makes the other operand.
  bool TakeRow(size_t& at, ValueView& row) {
    const std::vector<ValueView>& inputs = graph_.node(at).inputs();
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueView& other = inputs[1 - i];
      const std::optional<size_t> maker = graph_.Producer(other.name);
      if (!maker || !IsRowOf(inputs[i], other) || !IsFloating(other.type)) continue;
      row = inputs[i];
      Take(at);
      at = *maker;
      return true;
    }
    return false;
  }

  bool TakeCast(size_t& at, ONNXTensorElementDataType type) {
    const ValueView& from = graph_.node(at).inputs()[0];
    const std::optional<size_t> maker = graph_.Producer(from.name);
    if (!maker || from.type != kFloat || graph_.node(at).OutputType(0) != type || type == kFloat) {
      return false;
    }
    Take(at);
    at = *maker;
    return true;
  }

  // centered / root, or centered * (1 / root).
  bool TakeQuotient(size_t at, std::string_view& centered, std::string_view& root) {
    const std::vector<ValueView>& inputs = graph_.node(at).inputs();
    if (Is(graph_, at, "Div")) {
      Take(at);
      centered = inputs[0].name;
      root = inputs[1].name;
      return true;
    }
    if (!Is(graph_, at, "Mul")) return false;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const std::string_view inverse = inputs[i].name;
      std::optional<size_t> maker = ProducerOf(graph_, inverse, "Reciprocal");
      size_t of = 0;
      if (!maker) {
        maker = ProducerOf(graph_, inverse, "Div");
        if (!maker || !HasNumber(*maker, 0, 1.0)) continue;
        of = 1;
      }
      Take(at);
      Take(*maker);
      centered = inputs[1 - i].name;
      root = graph_.node(*maker).inputs()[of].name;
      return true;
    }
    return false;
  }

  // sqrt(value + epsilon): `root` becomes the name of the value.
  bool TakeRoot(std::string_view& root, double& epsilon) {
    std::optional<size_t> maker = ProducerOf(graph_, root, "Sqrt");
    if (!maker) {
      maker = ProducerOf(graph_, root, "Pow");
      if (!maker || !HasNumber(*maker, 1, 0.5)) return false;
    }
    Take(*maker);
    const std::optional<Shifted> sum = ShiftedOf(graph_, graph_.node(*maker).inputs()[0].name);
    if (!sum || !(sum->number >= 0.0)) return false;
    Take(sum->node);
    epsilon = sum->number;
    root = sum->value;
    return true;
  }

  // What is squared.
  std::optional<std::string_view> TakeMeanSquare(std::string_view value) {
    const std::optional<size_t> mean = graph_.Producer(value);
    if (!mean || !IsMeanOfRows(graph_, *mean)) return std::nullopt;
    Take(*mean);
    const std::optional<size_t> square = graph_.Producer(graph_.node(*mean).inputs()[0].name);
    if (!square) return std::nullopt;
    const std::vector<ValueView>& inputs = graph_.node(*square).inputs();
    const bool power = Is(graph_, *square, "Pow") && HasNumber(*square, 1, 2.0);
    const bool product = Is(graph_, *square, "Mul") && inputs[0].name == inputs[1].name;
    if (!power && !product) return std::nullopt;
    Take(*square);
    return inputs[0].name;
  }

  // x - mean(x): x, behind a cast where there is one.
  std::optional<std::string_view> TakeCentered(std::string_view value, bool wide,
                                               ONNXTensorElementDataType type) {
    const std::optional<size_t> sub = ProducerOf(graph_, value, "Sub");
    if (!sub) return std::nullopt;
    const std::vector<ValueView>& inputs = graph_.node(*sub).inputs();
    const std::optional<size_t> mean = graph_.Producer(inputs[1].name);
    if (!mean || !IsMeanOfRows(graph_, *mean)) return std::nullopt;
    Take(*sub);
    Take(*mean);
    const std::string_view x = Source(inputs[0].name, wide, type);
    if (x != Source(graph_.node(*mean).inputs()[0].name, wide, type)) return std::nullopt;
    return x;
  }

  // Where the value comes from, if that is a cast.
  std::string_view Source(std::string_view value, bool wide, ONNXTensorElementDataType type) {
    const std::optional<size_t> cast = ProducerOf(graph_, value, "Cast");
    if (!wide || !cast || graph_.node(*cast).InputType(0) != type) return value;
    Take(*cast);
    return graph_.node(*cast).inputs()[0].name;
  }

  const GraphIndex& graph_;
  std::vector<size_t> nodes_;
};

std::optional<NormParts> MatchNormNode(const GraphIndex& graph, size_t last) {
  const NodeView& node = graph.node(last);
  const bool mean = Is(graph, last, "LayerNormalization");
  if (!mean && !Is(graph, last, "SimplifiedLayerNormalization") &&
      !Is(graph, last, "RMSNormalization")) {
    return std::nullopt;
  }
  if (!node.Has(0) || !node.Has(1)) return std::nullopt;
  const ValueView& x = node.inputs()[0];
  const ValueView& gamma = node.inputs()[1];
  const int64_t axis = node.Int("axis", -1);
  const bool is_last =
      axis == -1 || (!x.dims.empty() && AxisOf(axis, x.dims.size()) == x.dims.size() - 1);
  const auto statistic = [&](size_t i) {
    return node.Gives(i) && (!graph.Consumers(node.outputs()[i].name).empty() ||
                             graph.Leaves(node.outputs()[i].name));
  };
  if (!is_last || statistic(1) || statistic(2) || !IsFloating(x.type) || gamma.type != x.type ||
      gamma.dims.size() != 1) {
    return std::nullopt;
  }
  NormParts parts;
  parts.x = x;
  parts.gamma = gamma;
  if (node.Has(2)) parts.beta = node.inputs()[2];
  parts.out = node.outputs()[0].name;
  parts.mean = mean;
  parts.epsilon = node.Float("epsilon", 1e-5F);
  parts.members = {last};
  return parts;
}

}  // namespace

std::optional<NormParts> MatchNormChain(const GraphIndex& graph, size_t last) {
  return Chain(graph).Match(last);
}

std::optional<NormParts> MatchNorm(const GraphIndex& graph, size_t last) {
  std::optional<NormParts> parts = MatchNormNode(graph, last);
  return parts ? parts : MatchNormChain(graph, last);
}

std::optional<NormParts> MatchResidualNorm(const GraphIndex& graph, size_t last) {
  std::optional<NormParts> parts = MatchNorm(graph, last);
  if (!parts) return std::nullopt;
  const std::optional<size_t> add = ProducerOf(graph, parts->x.name, "Add");
  if (!add) return std::nullopt;
  const std::vector<ValueView>& inputs = graph.node(*add).inputs();
  parts->sum = parts->x.name;
  parts->x = inputs[0];
  parts->skip = inputs[1];
  parts->members.push_back(*add);
  if (!Closed(graph, parts->members, {parts->sum, parts->out})) return std::nullopt;
  return parts;
}

}  // namespace tunableop
