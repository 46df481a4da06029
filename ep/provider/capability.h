// The one place that says why a node is claimed or refused.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/ort_c_api.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "provider/fusion/place.h"
#include "provider/options.h"
#include "provider/type_name.h"

namespace tunableop {

class NodeView;
struct ModuleName;

// What was decided about one node: a MatMul or Gemm, or, on a card, any other.
struct NodeDecision {
  std::string graph;  // name of the (sub)graph
  std::string name;   // as the model calls it; may be empty
  std::string op_type;
  bool is_gemm = true;  // MatMul or Gemm
  bool claimed = false;
  bool weight = false;  // of those: B is a constant initializer
  std::string reason;  // "claimed: fp32, B is a weight", "refused: input type fp16 has no kernel on
                       // this CPU"
};

// In the reason of a node that runs with others as one, before the pattern's name.
inline constexpr std::string_view kFusedAs = ", fused as ";

// The facts of a node on which the decision rests.
struct NodeFacts {
  std::string_view op_type;
  std::string_view name;  // as the model calls it; may be empty
  std::string_view domain;
  int since_version = 0;
  std::vector<ONNXTensorElementDataType> input_types;  // UNDEFINED for an absent optional input
  bool weight = false;
  int64_t k = 0;  // of op(B), one matrix of it, when B is a weight; else 0
  int64_t n = 0;
  bool on_other_provider = false;
  bool on_stock_provider = false;  // the other provider is the stock CPU provider
  bool is_ours = false;    // claimed in an earlier round; to be explained, not claimed again
  bool has_kernel = true;  // ONNX Runtime found a kernel of ours for it
};

// Whether a node is better left to the stock CPU provider: the figures that say so ("1.23 ms
// against 1.40 ms (cache)"), or nullopt. Asked with claim=auto only; may be empty.
using StockAdvice = std::function<std::optional<std::string>(const NodeFacts&)>;

// NOLINTBEGIN(readability-redundant-member-init): g++ warns of aggregates that leave out the rest
// What is claimed in a session.
struct ClaimRules {
  ClaimPolicy policy = ClaimPolicy::kAuto;
  std::string place;  // where its kernels run, for a person: "a CPU", "cuda:0"
  // Whether a type has kernels there. Asked of the types that the model has: a card's libraries
  // take some time to say it.
  std::function<bool(DataType)> runs = {};
  bool leaves_computed = false;  // MatMul and Gemm whose B is no constant, to another provider
  bool on_card = false;
  // On a card, of nodes that are no MatMul or Gemm: why none is claimed; empty: those of
  // operators.h are.
  std::string only_products = {};
  // On a card, where operators are claimed: nodes run as one (fusion/) that a kernel suits there.
  // Nothing: each by itself.
  std::optional<FusionPlace> fuses = {};
  // Makes the modules that the claimed ones need ready, and says of each what refused it, if
  // anything did; null: nobody does.
  std::function<std::vector<Status>(std::span<const ModuleName> modules)> prepare = {};
};
// NOLINTEND(readability-redundant-member-init)

// Pure: no ONNX Runtime call. `reason` is for a person. A node that is no MatMul or Gemm is not a
// question of this policy: see IsGemmLike.
struct Verdict {
  bool claimed = false;
  std::string reason;
};
Verdict Decide(const NodeFacts& facts, const ClaimRules& rules, const StockAdvice& advice = {});

bool IsGemmLike(std::string_view op_type, std::string_view domain) noexcept;

// The same for a node that is no MatMul or Gemm, on a card.
Verdict DecideOperator(const NodeView& node, bool has_kernel, const ClaimRules& rules);

// Looks at every node of `graph`, claims those that are accepted and appends what was decided.
Status ClaimNodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const ClaimRules& rules,
                  std::vector<NodeDecision>& decisions, const StockAdvice& advice = {});

}  // namespace tunableop
