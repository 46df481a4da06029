#include "provider/capability.h"

#include <algorithm>
#include <utility>

#include "provider/element_type.h"
#include "provider/ort_runtime.h"
#include "provider/provider.h"

namespace tunableop {
namespace {

Verdict Claimed(std::string reason) { return {true, "claimed: " + std::move(reason)}; }
Verdict Refused(std::string reason) { return {false, "refused: " + std::move(reason)}; }

// "fp32 has", "fp32, fp16 and bf16 have"
std::string WhatHas(const std::vector<DataType>& types) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) {
    if (i > 0) text += i + 1 < types.size() ? ", " : " and ";
    text += Name(types[i]);
  }
  return text + (types.size() == 1 ? " has" : " have");
}

// The element type of a value; UNDEFINED for an absent optional input or a value that is no tensor.
Result<ONNXTensorElementDataType> ElementType(const OrtValueInfo* value) {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  if (value == nullptr) return type;
  const OrtTypeInfo* info = nullptr;  // owned by the value
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetValueInfoTypeInfo(value, &info));
  if (info == nullptr) return type;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->CastTypeInfoToTensorInfo(info, &tensor));
  if (tensor == nullptr) return type;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorElementType(tensor, &type));
  return type;
}

// op(B)'s sizes by the dimensions of a weight; left at 0 for what a product cannot be made of.
Status ReadWeight(const OrtNode* node, const OrtValueInfo* value, NodeFacts& facts) {
  const OrtApi& api = *Ort().api;
  const OrtTypeInfo* info = nullptr;  // owned by the value
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetValueInfoTypeInfo(value, &info));
  if (info == nullptr) return Status::Ok();
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.CastTypeInfoToTensorInfo(info, &tensor));
  if (tensor == nullptr) return Status::Ok();
  size_t rank = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetDimensionsCount(tensor, &rank));
  if (rank == 0) return Status::Ok();
  std::vector<int64_t> dims(rank);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetDimensions(tensor, dims.data(), rank));
  facts.k = rank == 1 ? dims[0] : dims[rank - 2];
  facts.n = rank == 1 ? 1 : dims[rank - 1];
  if (facts.op_type != "Gemm") return Status::Ok();
  const OrtOpAttr* attribute = nullptr;
  // An attribute that is not there is an error or null, as versions differ: B is not transposed.
  if (!FromOrt(api.Node_GetAttributeByName(node, "transB", &attribute)).ok() ||
      attribute == nullptr) {
    return Status::Ok();
  }
  int64_t transposed = 0;
  size_t size = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      api.ReadOpAttr(attribute, ORT_OP_ATTR_INT, &transposed, sizeof(transposed), &size));
  if (transposed != 0) std::swap(facts.k, facts.n);
  return Status::Ok();
}

Status ReadFacts(const OrtNode* node, OrtEpGraphSupportInfo* support, NodeFacts& facts) {
  const OrtApi& api = *Ort().api;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetSinceVersion(node, &facts.since_version));
  size_t count = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetNumInputs(node, &count));
  std::vector<const OrtValueInfo*> inputs(count);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetInputs(node, inputs.data(), count));
  for (const OrtValueInfo* input : inputs) {
    Result<ONNXTensorElementDataType> type = ElementType(input);
    if (!type.ok()) return type.TakeStatus();
    facts.input_types.push_back(type.value());
  }
  if (count > 1 && inputs[1] != nullptr) {
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.ValueInfo_IsConstantInitializer(inputs[1], &facts.weight));
    if (facts.weight) TUNABLEOP_RETURN_IF_ERROR(ReadWeight(node, inputs[1], facts));
  }
  const char* provider = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetEpName(node, &provider));
  const std::string_view owner = provider != nullptr ? provider : "";
  facts.is_ours = owner == kProviderName;
  facts.on_other_provider = !owner.empty() && !facts.is_ours;
  facts.on_stock_provider = owner == "CPUExecutionProvider";
  if (facts.is_ours) return Status::Ok();
  const OrtKernelDef* kernel = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().ep_api->EpGraphSupportInfo_LookUpKernel(support, node, &kernel));
  facts.has_kernel = kernel != nullptr;
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
  if (facts.on_other_provider) return Refused("another execution provider has it already");
  for (const ONNXTensorElementDataType type : facts.input_types) {
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) continue;
    const std::optional<DataType> known = DataTypeOf(type);
    if (!known || std::find(rules.types.begin(), rules.types.end(), *known) == rules.types.end()) {
      return Refused("input type " + std::string(TypeName(type)) + " has no kernel on " +
                     rules.place + " here; " + WhatHas(rules.types));
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

Status ClaimNodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const ClaimRules& rules,
                  std::vector<NodeDecision>& decisions, const StockAdvice& advice) {
  const OrtApi& api = *Ort().api;
  const char* graph_name = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetName(graph, &graph_name));
  size_t count = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetNumNodes(graph, &count));
  std::vector<const OrtNode*> nodes(count);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetNodes(graph, nodes.data(), count));
  for (const OrtNode* node : nodes) {
    const char* op_type = nullptr;
    const char* domain = nullptr;
    const char* name = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetOperatorType(node, &op_type));
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetDomain(node, &domain));
    if (!IsGemmLike(op_type, domain)) continue;
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetName(node, &name));
    NodeFacts facts;
    facts.op_type = op_type;
    facts.name = name != nullptr ? name : "";
    facts.domain = domain;
    TUNABLEOP_RETURN_IF_ERROR(ReadFacts(node, support, facts));
    Verdict verdict = Decide(facts, rules, advice);
    if (verdict.claimed && !facts.is_ours) {
      TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->EpGraphSupportInfo_AddSingleNode(support, node));
    }
    decisions.push_back(NodeDecision{graph_name != nullptr ? graph_name : "",
                                     name != nullptr ? name : "", op_type, verdict.claimed,
                                     facts.weight, std::move(verdict.reason)});
  }
  return Status::Ok();
}

std::string_view TypeName(ONNXTensorElementDataType type) noexcept {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return "fp32";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return "fp16";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return "bf16";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return "fp64";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return "int32";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return "int64";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
      return "uint32";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
      return "uint64";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
      return "int8";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return "uint8";
    default:
      return "of another kind";
  }
}

}  // namespace tunableop
