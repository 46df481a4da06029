#include "provider/capability.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>

#include "provider/cpu_preferred.h"
#include "provider/decisions.h"
#include "provider/element_type.h"
#include "provider/fusion/groups.h"
#include "provider/kernels_ahead.h"
#include "provider/node_view.h"
#include "provider/operators.h"
#include "provider/ort_runtime.h"
#include "provider/provider.h"

namespace tunableop {
namespace {

constexpr std::string_view kCpuProvider = "CPUExecutionProvider";

Verdict Claimed(std::string reason) { return {true, "claimed: " + std::move(reason)}; }
Verdict Refused(std::string reason) { return {false, "refused: " + std::move(reason)}; }

// "fp32 has", "fp32, fp16 and bf16 have"
std::string WhatHas(const ClaimRules& rules) {
  std::vector<DataType> types;
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat64}) {
    if (rules.runs(type)) types.push_back(type);
  }
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) {
    if (i > 0) text += i + 1 < types.size() ? ", " : " and ";
    text += Name(types[i]);
  }
  return text + (types.size() == 1 ? " has" : " have");
}

// op(B)'s sizes by the dimensions of a weight; left at 0 for what a product cannot be made of.
void ReadWeight(const NodeView& node, NodeFacts& facts) {
  const std::vector<int64_t>& dims = node.inputs()[1].dims;
  if (dims.empty()) return;
  facts.k = dims.size() == 1 ? dims[0] : dims[dims.size() - 2];
  facts.n = dims.size() == 1 ? 1 : dims.back();
  if (facts.op_type == "Gemm" && node.Int("transB", 0) != 0) std::swap(facts.k, facts.n);
}

NodeFacts FactsOf(const NodeView& node, bool has_kernel) {
  NodeFacts facts;
  facts.op_type = node.op();
  facts.name = node.name();
  facts.domain = node.domain();
  facts.since_version = node.version();
  for (const ValueView& input : node.inputs()) facts.input_types.push_back(input.type);
  facts.weight = node.Has(1) && node.inputs()[1].constant;
  if (facts.weight) ReadWeight(node, facts);
  facts.is_ours = node.owner() == kProviderName;
  facts.on_other_provider = !node.owner().empty() && !facts.is_ours;
  facts.on_stock_provider = node.owner() == kCpuProvider;
  facts.has_kernel = has_kernel;
  return facts;
}

Result<bool> HasKernel(const NodeView& node, OrtEpGraphSupportInfo* support) {
  if (node.owner() == kProviderName) return true;
  const OrtKernelDef* kernel = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().ep_api->EpGraphSupportInfo_LookUpKernel(support, node.node(), &kernel));
  return kernel != nullptr;
}

Result<std::unordered_set<std::string_view>> InputsOf(const OrtGraph* graph) {
  const OrtApi& api = *Ort().api;
  size_t count = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetNumInputs(graph, &count));
  std::vector<const OrtValueInfo*> inputs(count);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetInputs(graph, inputs.data(), count));
  std::unordered_set<std::string_view> names;
  for (const OrtValueInfo* input : inputs) {
    const char* name = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetValueInfoName(input, &name));
    if (name != nullptr) names.insert(name);
  }
  return names;
}

// Takes back the claims of nodes that compute shapes. `left`: becomes which those are.
Status LeaveShapesToCpu(const OrtGraph* graph, std::span<const NodeView> nodes,
                        std::span<Verdict> verdicts, std::vector<bool>& left) {
  Result<std::unordered_set<std::string_view>> inputs = InputsOf(graph);
  if (!inputs.ok()) return inputs.TakeStatus();
  std::vector<PlacedNode> placed;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string_view owner = nodes[i].owner();
    PlacedNode& node = placed.emplace_back();
    node.view = &nodes[i];
    node.ours = verdicts[i].claimed;
    node.on_cpu = !node.ours && (owner.empty() || owner == kCpuProvider);
    const Operator* op = node.ours ? FindOperator(nodes[i].domain(), nodes[i].op()) : nullptr;
    if (op == nullptr) continue;
    node.may_leave = owner != kProviderName;
    node.host_inputs = op->host_inputs;
    node.host_outputs = op->host_outputs;
  }
  const std::vector<bool> preferred = CpuPreferred(placed, inputs.value());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!preferred[i]) continue;
    left[i] = verdicts[i].claimed;
    verdicts[i] = Refused("it computes a shape, which stays on the CPU");
  }
  return Status::Ok();
}

}  // namespace

bool IsGemmLike(std::string_view op_type, std::string_view domain) noexcept {
  return (domain.empty() || domain == "ai.onnx") && (op_type == "MatMul" || op_type == "Gemm");
}

Verdict Decide(const NodeFacts& facts, const ClaimRules& rules, const StockAdvice& advice) {
  // Also of a node that the stock provider got for this very reason in an earlier round. One of
  // ours stays: its weight is packed.
  const bool open = !facts.is_ours && (!facts.on_other_provider || facts.on_stock_provider);
  if (open && rules.policy == ClaimPolicy::kAuto && advice) {
    if (const std::optional<std::string> figures = advice(facts)) {
      return Refused("the stock provider is faster here: " + *figures);
    }
  }
  if (facts.on_other_provider) return Refused(std::string(kElsewhere));
  for (const ONNXTensorElementDataType type : facts.input_types) {
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) continue;
    const std::optional<DataType> known = DataTypeOf(type);
    if (!known || !rules.runs(*known)) {
      return Refused("input type " + std::string(TypeName(type)) + " has no kernel on " +
                     rules.place + " here; " + WhatHas(rules));
    }
  }
  if (facts.op_type == "Gemm" && facts.since_version < 7) {
    return Refused("Gemm of opset " + std::to_string(facts.since_version) +
                   " (attribute 'broadcast') is older than opset 7");
  }
  if (!facts.has_kernel) {
    return Refused("no kernel registered for " + std::string(facts.op_type) + " of opset " +
                   std::to_string(facts.since_version));
  }
  if (rules.policy == ClaimPolicy::kWeights && !facts.weight) {
    return Refused("claim=weights, and B is not a constant initializer");
  }
  if (rules.leaves_computed && !facts.weight) {
    return Refused("claim=auto, B is computed, and " + rules.place +
                   " has a stock provider that fuses such products");
  }
  const std::string_view type =
      TypeName(facts.input_types.empty() ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED
                                         : facts.input_types.front());
  return Claimed(std::string(type) + (facts.weight ? ", B is a weight" : ", B is computed"));
}

Verdict DecideOperator(const NodeView& node, bool has_kernel, const ClaimRules& rules) {
  const bool is_ours = node.owner() == kProviderName;
  if (!node.owner().empty() && !is_ours) {
    return Refused(std::string(kElsewhere));
  }
  const Operator* op = FindOperator(node.domain(), node.op());
  if (op == nullptr) return Refused("there is no kernel of this operator");
  if (!rules.only_products.empty()) return Refused(rules.only_products);
  if (std::optional<std::string> why = WhyNotTaken(*op, node)) return Refused(*std::move(why));
  if (!has_kernel) {
    return Refused("no kernel registered for " + std::string(node.op()) + " of opset " +
                   std::to_string(node.version()));
  }
  return Claimed(std::string(TypeName(node.InputType(op->typed))));
}

namespace {

// Modules without doubles, and what became of each.
class Modules {
 public:
  size_t Add(ModuleName name) {
    const auto known = std::find(names_.begin(), names_.end(), name);
    if (known != names_.end()) return static_cast<size_t>(known - names_.begin());
    names_.push_back(std::move(name));
    return names_.size() - 1;
  }
  void Prepare(const ClaimRules& rules) { made_ = rules.prepare(names_); }
  const Status& Made(size_t i) const { return made_[i]; }

 private:
  std::vector<ModuleName> names_;
  std::vector<Status> made_;
};

// Compiles what the claimed operators and groups need, and gives those up whose kernels cannot be.
void PrepareKernels(const std::vector<NodeView>& nodes, const ClaimRules& rules,
                    std::vector<Verdict>& verdicts, std::vector<FoundGroup>& groups) {
  Modules modules;
  std::vector<bool> grouped(nodes.size(), false);
  std::vector<std::vector<size_t>> wants;  // of groups
  for (const FoundGroup& found : groups) {
    std::vector<size_t>& wanted = wants.emplace_back();
    for (const ModuleName& name : found.group.modules) wanted.push_back(modules.Add(name));
    for (const size_t i : found.group.nodes) grouped[i] = true;
  }
  std::vector<std::optional<size_t>> needs(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Operator* op = FindOperator(nodes[i].domain(), nodes[i].op());
    if (!verdicts[i].claimed || grouped[i] || op == nullptr) continue;
    if (std::optional<ModuleName> module = ModuleOf(*op, nodes[i])) {
      needs[i] = modules.Add(*std::move(module));
    }
  }
  modules.Prepare(rules);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!needs[i].has_value() || modules.Made(*needs[i]).ok()) continue;
    verdicts[i] = Refused(std::string(modules.Made(*needs[i]).message()));
  }
  // Nodes of a group that is given up are compiled when ONNX Runtime makes their kernels.
  std::vector<FoundGroup> whole;
  for (size_t g = 0; g < groups.size(); ++g) {
    const bool ready = std::all_of(wants[g].begin(), wants[g].end(),
                                   [&](size_t i) { return modules.Made(i).ok(); });
    if (ready) whole.push_back(std::move(groups[g]));
  }
  groups = std::move(whole);
}

Result<std::vector<FoundGroup>> GroupsOf(const OrtGraph* graph, const std::vector<NodeView>& nodes,
                                         const std::vector<bool>& left,
                                         std::vector<Verdict>& verdicts, const FusionPlace& place) {
  Result<GraphIndex> index = GraphIndex::Of(graph, nodes);
  if (!index.ok()) return index.TakeStatus();
  std::vector<bool> claimed(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    claimed[i] = verdicts[i].claimed && nodes[i].owner() != kProviderName;
  }
  std::vector<FoundGroup> groups = FindGroups(index.value(), claimed, left, place);
  for (const FoundGroup& found : groups) {
    for (const size_t i : found.group.shapes) {
      if (!verdicts[i].claimed) verdicts[i] = Claimed("a number that is made of a shape");
    }
  }
  return groups;
}

// Says to ONNX Runtime what is taken: groups, and the other nodes one by one.
Status Support(OrtEpGraphSupportInfo* support, const std::vector<NodeView>& nodes,
               const std::vector<FoundGroup>& groups, std::vector<Verdict>& verdicts) {
  std::vector<bool> grouped(nodes.size(), false);
  for (const FoundGroup& found : groups) {
    std::vector<const OrtNode*> members;
    for (const size_t i : found.group.nodes) {
      members.push_back(nodes[i].node());
      grouped[i] = true;
      verdicts[i].reason += std::string(kFusedAs) + found.fusion->op.op;
    }
    OrtNodeFusionOptions options{};
    options.ort_version_supported = Ort().version;
    options.drop_constant_initializers = found.group.copies_constants;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->EpGraphSupportInfo_AddNodesToFuse(
        support, members.data(), members.size(), &options));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!verdicts[i].claimed || grouped[i] || nodes[i].owner() == kProviderName) continue;
    TUNABLEOP_RETURN_IF_ORT_ERROR(
        Ort().ep_api->EpGraphSupportInfo_AddSingleNode(support, nodes[i].node()));
  }
  return Status::Ok();
}

}  // namespace

Status ClaimNodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const ClaimRules& rules,
                  std::vector<NodeDecision>& decisions, const StockAdvice& advice) {
  const char* graph_name = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->Graph_GetName(graph, &graph_name));
  Result<std::vector<NodeView>> read = ReadNodes(graph);
  if (!read.ok()) return read.TakeStatus();
  const std::vector<NodeView>& nodes = read.value();
  std::vector<Verdict> verdicts(nodes.size());
  std::vector<FoundGroup> groups;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool is_gemm = IsGemmLike(nodes[i].op(), nodes[i].domain());
    if (!is_gemm && !rules.on_card) continue;
    Result<bool> has_kernel = HasKernel(nodes[i], support);
    if (!has_kernel.ok()) return has_kernel.TakeStatus();
    verdicts[i] = is_gemm ? Decide(FactsOf(nodes[i], has_kernel.value()), rules, advice)
                          : DecideOperator(nodes[i], has_kernel.value(), rules);
  }
  if (rules.on_card && rules.only_products.empty()) {
    std::vector<bool> left(nodes.size(), false);
    TUNABLEOP_RETURN_IF_ERROR(LeaveShapesToCpu(graph, nodes, verdicts, left));
    if (rules.fuses.has_value()) {
      Result<std::vector<FoundGroup>> found = GroupsOf(graph, nodes, left, verdicts, *rules.fuses);
      if (!found.ok()) return found.TakeStatus();
      groups = std::move(found).value();
    }
    if (rules.prepare) PrepareKernels(nodes, rules, verdicts, groups);
  }
  TUNABLEOP_RETURN_IF_ERROR(Support(support, nodes, groups, verdicts));
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeView& node = nodes[i];
    const bool is_gemm = IsGemmLike(node.op(), node.domain());
    if (!is_gemm && !rules.on_card) continue;
    // What a group has become is no node of the model's.
    const bool is_group = node.owner() == kProviderName && node.domain() == kProviderName;
    if (is_group) continue;
    decisions.push_back(NodeDecision{
        graph_name != nullptr ? graph_name : "", std::string(node.name()), std::string(node.op()),
        is_gemm, verdicts[i].claimed, is_gemm && node.Has(1) && node.inputs()[1].constant,
        std::move(verdicts[i].reason)});
  }
  return Status::Ok();
}

}  // namespace tunableop
