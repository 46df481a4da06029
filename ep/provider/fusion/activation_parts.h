// Activations, as one operator or as the elementwise ones that exporters write for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "provider/fusion/expression.h"

namespace tunableop {

// The kernels of ep/kernels/bias_act.h.
enum class Curve : uint8_t { kRelu, kGelu, kGeluTanh, kSigmoid };

const char* EntryOf(Curve curve) noexcept;

// Nodes of a GraphIndex: out = curve(x + bias) * gate.
struct ActivationParts {
  Curve curve = Curve::kRelu;
  double alpha = 1.0;  // of kSigmoid: x / (1 + exp(-alpha * x))
  ValueView x;
  ValueView bias;  // a row of constants; absent: none
  ValueView gate;  // absent: none
  std::string_view out;
  std::vector<size_t> members;

  const std::vector<size_t>& nodes() const noexcept { return members; }
};

// What node `last` ends; one operator counts too. With a sum before it that is an operator's own.
std::optional<ActivationParts> MatchCurve(const GraphIndex& graph, size_t last);

// Of several nodes.
std::optional<ActivationParts> MatchActivation(const GraphIndex& graph, size_t last);
// With a row of constants that is added before.
std::optional<ActivationParts> MatchBiasActivation(const GraphIndex& graph, size_t last);
// With a factor behind it.
std::optional<ActivationParts> MatchGatedActivation(const GraphIndex& graph, size_t last);

}  // namespace tunableop
