#include "provider/fusion/expression.h"

#include <algorithm>
#include <cmath>

#include "provider/element_type.h"

namespace tunableop {
namespace {

void AddFactors(const GraphIndex& graph, std::string_view value, Factors& factors);

// False: the node does not multiply.
bool TakeApart(const GraphIndex& graph, size_t i, Factors& factors) {
  const bool product = Is(graph, i, "Mul");
  const bool quotient = Is(graph, i, "Div");
  const bool power = Is(graph, i, "Pow");
  if (!product && !quotient && !power) return false;
  const std::vector<ValueView>& inputs = graph.node(i).inputs();
  const std::optional<ScalarOperand> number = NumberBeside(graph, i);
  if (power) {
    if (!number || number->at != 1 || (number->value != 2.0 && number->value != 3.0)) return false;
    factors.nodes.push_back(i);
    factors.values.insert(factors.values.end(), static_cast<size_t>(number->value), inputs[0].name);
    return true;
  }
  if (quotient && (!number || number->at != 1 || number->value == 0.0)) return false;
  factors.nodes.push_back(i);
  if (number) {
    factors.scale *= quotient ? 1.0 / number->value : number->value;
    AddFactors(graph, inputs[number->other].name, factors);
    return true;
  }
  AddFactors(graph, inputs[0].name, factors);
  AddFactors(graph, inputs[1].name, factors);
  return true;
}

void AddFactors(const GraphIndex& graph, std::string_view value, Factors& factors) {
  const std::optional<size_t> maker = graph.Producer(value);
  if (maker && graph.OnlyConsumer(value) && TakeApart(graph, *maker, factors)) return;
  factors.values.push_back(value);
}

}  // namespace

bool Near(double value, double expected, ONNXTensorElementDataType type) noexcept {
  // 0.79788 is written, too. Of halves: less than what lies between 1 and its neighbours.
  double part = 1e-5;
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16) part = 4e-4;
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16) part = 3e-3;
  return std::abs(value - expected) <= part * std::abs(expected);
}

bool IsFloating(ONNXTensorElementDataType type) noexcept { return DataTypeOf(type).has_value(); }

const ValueView* ViewOf(const GraphIndex& graph, std::string_view value) noexcept {
  if (const std::optional<size_t> maker = graph.Producer(value)) {
    for (const ValueView& output : graph.node(*maker).outputs()) {
      if (output.name == value) return &output;
    }
  }
  for (const size_t reader : graph.Consumers(value)) {
    for (const ValueView& input : graph.node(reader).inputs()) {
      if (input.name == value) return &input;
    }
  }
  return nullptr;
}

bool IsRowOf(const ValueView& row, const ValueView& x) noexcept {
  return row.constant && row.type == x.type && row.dims.size() == 1 && row.dims[0] > 0 &&
         !x.dims.empty() && x.dims.back() == row.dims[0];
}

std::optional<ScalarOperand> NumberBeside(const GraphIndex& graph, size_t i) {
  const std::optional<ScalarOperand> number = ScalarOf(graph, i);
  if (!number) return std::nullopt;
  const std::vector<ValueView>& inputs = graph.node(i).inputs();
  if (inputs[number->at].dims.size() > inputs[number->other].dims.size()) return std::nullopt;
  return number;
}

std::optional<Shifted> ShiftedOf(const GraphIndex& graph, std::string_view value) {
  const std::optional<size_t> add = ProducerOf(graph, value, "Add");
  if (!add || !graph.OnlyConsumer(value)) return std::nullopt;
  const std::optional<ScalarOperand> number = NumberBeside(graph, *add);
  if (!number) return std::nullopt;
  return Shifted{graph.node(*add).inputs()[number->other].name, number->value, *add};
}

Factors FactorsOf(const GraphIndex& graph, size_t root) {
  Factors factors;
  TakeApart(graph, root, factors);
  return factors;
}

Factors FactorsOf(const GraphIndex& graph, std::string_view value) {
  Factors factors;
  AddFactors(graph, value, factors);
  return factors;
}

bool Closed(const GraphIndex& graph, std::span<const size_t> nodes,
            std::initializer_list<std::string_view> outputs) {
  const auto inside = [&](size_t reader) {
    return std::find(nodes.begin(), nodes.end(), reader) != nodes.end();
  };
  for (const size_t i : nodes) {
    for (const ValueView& value : graph.node(i).outputs()) {
      if (!value.present() ||
          std::find(outputs.begin(), outputs.end(), value.name) != outputs.end()) {
        continue;
      }
      const std::span<const size_t> readers = graph.Consumers(value.name);
      if (graph.Leaves(value.name) || !std::all_of(readers.begin(), readers.end(), inside)) {
        return false;
      }
    }
  }
  return true;
}

void Append(std::vector<size_t>& to, std::span<const size_t> from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace tunableop
