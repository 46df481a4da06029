#include "provider/fusion/shape_scalar_match.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_map>

namespace tunableop {
namespace {

using Kind = ScalarStep::Kind;
constexpr size_t kMostNodes = 24;

constexpr std::array<std::string_view, 4> kEnds{"Add", "Div", "Mul", "Sub"};
constexpr std::array<std::string_view, 5> kBinary{"Add", "Div", "Mul", "Pow", "Sub"};
constexpr std::array<std::string_view, 3> kUnary{"Neg", "Reciprocal", "Sqrt"};
constexpr std::array<std::string_view, 4> kSame{"Cast", "Identity", "Squeeze", "Unsqueeze"};

template <size_t kSize>
bool IsOneOf(const GraphIndex& graph, size_t node, const std::array<std::string_view, kSize>& ops) {
  return std::any_of(ops.begin(), ops.end(),
                     [&](std::string_view op) { return Is(graph, node, op); });
}

bool IsWhole(ONNXTensorElementDataType type) noexcept {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
}
bool IsFloating(ONNXTensorElementDataType type) noexcept {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ||
         type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
         type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 ||
         type == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
}

uint16_t HalfBits(float value) noexcept {
#if defined(__aarch64__)
  const auto half = static_cast<__fp16>(value);
#else
  const auto half = static_cast<_Float16>(value);
#endif
  uint16_t bits = 0;
  std::memcpy(&bits, &half, sizeof(bits));
  return bits;
}

float FloatOfHalf(uint16_t bits) noexcept {
#if defined(__aarch64__)
  __fp16 half = 0;
#else
  _Float16 half = 0;
#endif
  std::memcpy(&half, &bits, sizeof(bits));
  return static_cast<float>(half);
}

uint16_t BrainBits(float value) noexcept {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

double Rounded(double value, ONNXTensorElementDataType type) noexcept {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return static_cast<float>(value);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return FloatOfHalf(HalfBits(static_cast<float>(value)));
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return std::bit_cast<float>(uint32_t{BrainBits(static_cast<float>(value))} << 16U);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return value;
    default:
      return std::trunc(value);
  }
}

class Matcher {
 public:
  Matcher(const GraphIndex& graph, ShapeScalar& found) : graph_(graph), found_(found) {}

  bool Match(size_t last) {
    if (!IsOneOf(graph_, last, kEnds)) return false;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      found_ = {};
      known_.clear();
      const ValueView& scalar = graph_.node(last).inputs()[side];
      if (!graph_.Producer(scalar.name)) continue;
      const std::optional<size_t> number = Step(scalar);
      if (number && found_.steps[*number].count == 1 && !found_.sources.empty() &&
          TakeEnds(scalar) && IsClosed(scalar)) {
        return true;
      }
    }
    return false;
  }

 private:
  // The step that makes a value, and those before it.
  std::optional<size_t> Step(const ValueView& value) {
    if (const auto known = known_.find(value.name); known != known_.end()) return known->second;
    std::optional<ScalarStep> step;
    if (const std::optional<size_t> node = graph_.Producer(value.name)) {
      if (found_.chain.size() == kMostNodes) return std::nullopt;
      found_.chain.push_back(*node);
      step = StepOf(*node);
    } else if (value.constant) {
      step = ConstantOf(value);
    }
    if (!step || step->count < 1 || step->count > SmallNumbers::kMost) return std::nullopt;
    step->type = value.type;
    if (!IsWhole(value.type) && !IsFloating(value.type)) return std::nullopt;
    if (step->count > 1 && value.dims.size() != 1) return std::nullopt;  // steps count, no more
    found_.steps.push_back(*step);
    known_[value.name] = found_.steps.size() - 1;
    return found_.steps.size() - 1;
  }

  static std::optional<ScalarStep> ConstantOf(const ValueView& value) {
    ScalarStep step;
    if (const auto ints = value.ConstantInts(); ints && ints->size() <= SmallNumbers::kMost) {
      step.count = step.constant.count = ints->size();
      std::copy(ints->begin(), ints->end(), step.constant.at.begin());
      return step;
    }
    const std::optional<double> number = value.ConstantNumber();
    if (!number) return std::nullopt;
    step.count = step.constant.count = 1;
    step.constant.at[0] = *number;
    return step;
  }

  std::optional<ScalarStep> StepOf(size_t node) {
    const NodeView& view = graph_.node(node);
    if (Is(graph_, node, "Shape")) return ShapeOf(view);
    if (Is(graph_, node, "Gather")) return PartByGather(view);
    if (Is(graph_, node, "Slice")) return PartBySlice(view);
    ScalarStep step;
    if (IsOneOf(graph_, node, kBinary)) {
      step.kind = Kind::kBinary;
      step.op = view.op();
      for (size_t i = 0; i < 2; ++i) {
        const std::optional<size_t> from = Step(view.inputs()[i]);
        if (!from) return std::nullopt;
        step.from[i] = *from;
      }
      const size_t a = found_.steps[step.from[0]].count;
      const size_t b = found_.steps[step.from[1]].count;
      if (a != b && a != 1 && b != 1) return std::nullopt;
      step.count = std::max(a, b);
      return step;
    }
    const bool same = IsOneOf(graph_, node, kSame);
    if (!same && !IsOneOf(graph_, node, kUnary)) return std::nullopt;
    const std::optional<size_t> from = Step(view.inputs()[0]);
    if (!from) return std::nullopt;
    step.kind = same ? Kind::kSame : Kind::kUnary;
    step.op = view.op();
    step.from[0] = *from;
    step.count = found_.steps[*from].count;
    return step;
  }

  std::optional<ScalarStep> ShapeOf(const NodeView& view) {
    const ValueView& source = view.inputs()[0];
    const auto rank = static_cast<int64_t>(source.dims.size());
    if (rank == 0 || source.constant) return std::nullopt;  // not known how many
    const auto place = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const int64_t begin = place(view.Int("start", 0));
    const int64_t end = place(view.Int("end", rank));
    ScalarStep step;
    step.kind = Kind::kShape;
    step.from[0] = found_.sources.size();
    step.from[1] = static_cast<size_t>(rank);
    step.first = static_cast<size_t>(begin);
    step.count = static_cast<size_t>(std::max<int64_t>(end - begin, 0));
    found_.sources.push_back(source.name);
    return step;
  }

  std::optional<ScalarStep> Part(size_t from, int64_t begin, int64_t count) const {
    const auto whole = static_cast<int64_t>(found_.steps[from].count);
    if (begin < 0 || count < 1 || begin + count > whole) return std::nullopt;
    ScalarStep step;
    step.kind = Kind::kPart;
    step.from[0] = from;
    step.first = static_cast<size_t>(begin);
    step.count = static_cast<size_t>(count);
    return step;
  }

  std::optional<ScalarStep> PartByGather(const NodeView& view) {
    const std::optional<std::vector<int64_t>> at = view.inputs()[1].ConstantInts();
    const std::optional<size_t> from = Step(view.inputs()[0]);
    if (!from || !at || at->size() != 1 || view.Int("axis", 0) != 0) return std::nullopt;
    const auto whole = static_cast<int64_t>(found_.steps[*from].count);
    return Part(*from, at->front() < 0 ? at->front() + whole : at->front(), 1);
  }

  std::optional<ScalarStep> PartBySlice(const NodeView& view) {
    const std::optional<size_t> from = Step(view.inputs()[0]);
    if (!from || view.inputs().size() < 3) return std::nullopt;
    const auto whole = static_cast<int64_t>(found_.steps[*from].count);
    const auto one = [&](size_t input, int64_t missing) -> std::optional<int64_t> {
      if (!view.Has(input)) return missing;
      const std::optional<std::vector<int64_t>> value = view.inputs()[input].ConstantInts();
      if (!value || value->size() != 1) return std::nullopt;
      return value->front();
    };
    const std::optional<int64_t> start = one(1, 0);
    const std::optional<int64_t> end = one(2, whole);
    const std::optional<int64_t> axis = one(3, 0);
    const std::optional<int64_t> step = one(4, 1);
    if (!start || !end || !axis || step != 1 || (*axis != 0 && *axis != -1)) return std::nullopt;
    const auto place = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + whole : at, 0, whole);
    };
    return Part(*from, place(*start), place(*end) - place(*start));
  }

  // Everything that reads the number applies it to a tensor.
  bool TakeEnds(const ValueView& scalar) {
    if (graph_.Leaves(scalar.name)) return false;
    for (const size_t reader : graph_.Consumers(scalar.name)) {
      if (!IsOneOf(graph_, reader, kEnds)) return false;
      const std::vector<ValueView>& inputs = graph_.node(reader).inputs();
      const size_t side = inputs[0].name == scalar.name ? 0 : 1;
      const ValueView& tensor = inputs[1 - side];
      if (tensor.name == scalar.name || tensor.constant || tensor.type != scalar.type ||
          tensor.dims.empty() || scalar.dims.size() > tensor.dims.size()) {
        return false;
      }
      found_.ends.push_back({reader, side});
    }
    return true;
  }

  bool IsOfEnd(std::string_view value) const {
    const std::optional<size_t> maker = graph_.Producer(value);
    return maker && std::any_of(found_.ends.begin(), found_.ends.end(),
                                [&](const ShapeScalar::End& end) { return end.node == *maker; });
  }

  // Nothing on the way is read by anybody else, and no end is on the way or reads another.
  bool IsClosed(const ValueView& scalar) const {
    const auto inside = [&](size_t node) {
      return std::find(found_.chain.begin(), found_.chain.end(), node) != found_.chain.end();
    };
    for (const ShapeScalar::End& end : found_.ends) {
      const std::string_view tensor = graph_.node(end.node).inputs()[1 - end.scalar].name;
      if (inside(end.node) || IsOfEnd(tensor)) return false;
    }
    for (const size_t node : found_.chain) {
      for (const ValueView& value : graph_.node(node).outputs()) {
        if (!value.present() || value.name == scalar.name) continue;
        const std::span<const size_t> readers = graph_.Consumers(value.name);
        if (graph_.Leaves(value.name) || !std::all_of(readers.begin(), readers.end(), inside)) {
          return false;
        }
      }
    }
    return true;
  }

  const GraphIndex& graph_;
  ShapeScalar& found_;
  std::unordered_map<std::string_view, size_t> known_;
};

double Apply(std::string_view op, double a, double b, bool whole) noexcept {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Pow") return std::pow(a, b);
  return whole ? (b == 0.0 ? 0.0 : std::trunc(a / b)) : a / b;
}

}  // namespace

std::vector<size_t> ShapeScalar::nodes() const {
  std::vector<size_t> all = chain;
  for (const End& end : ends) {
    if (std::find(all.begin(), all.end(), end.node) == all.end()) all.push_back(end.node);
  }
  return all;
}

std::optional<ShapeScalar> MatchShapeScalar(const GraphIndex& graph, size_t last) {
  ShapeScalar found;
  if (!Matcher(graph, found).Match(last)) return std::nullopt;
  return found;
}

std::optional<double> Evaluate(const std::vector<ScalarStep>& steps,
                               const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<SmallNumbers> values(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const ScalarStep& step = steps[i];
    SmallNumbers& value = values[i];
    value.count = step.count;
    for (size_t n = 0; n < step.count; ++n) {
      const auto of = [&](size_t side) {
        const SmallNumbers& from = values[step.from[side]];
        return from.at[from.count == 1 ? 0 : n];
      };
      double number = 0.0;
      switch (step.kind) {
        case Kind::kConstant:
          number = step.constant.at[n];
          break;
        case Kind::kShape:
          if (shapes[step.from[0]].size() != step.from[1]) return std::nullopt;
          number = static_cast<double>(shapes[step.from[0]][step.first + n]);
          break;
        case Kind::kPart:
          number = values[step.from[0]].at[step.first + n];
          break;
        case Kind::kSame:
          number = of(0);
          break;
        case Kind::kUnary:
          number = step.op == "Sqrt" ? std::sqrt(of(0)) : step.op == "Neg" ? -of(0) : 1.0 / of(0);
          break;
        case Kind::kBinary:
          number = Apply(step.op, of(0), of(1), IsWhole(step.type));
          break;
      }
      value.at[n] = Rounded(number, step.type);
    }
  }
  return values.back().at[0];
}

uint64_t ElementBits(double value, ONNXTensorElementDataType type) noexcept {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return HalfBits(static_cast<float>(value));
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return BrainBits(static_cast<float>(value));
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return std::bit_cast<uint64_t>(value);
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return static_cast<uint32_t>(static_cast<int32_t>(value));
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

}  // namespace tunableop
