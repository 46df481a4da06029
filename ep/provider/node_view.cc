#include "provider/node_view.h"

#include <utility>

#include "provider/element_type.h"
#include "provider/kernels/element.h"
#include "provider/ort_runtime.h"
#include "tuner/elements.h"

namespace tunableop {
namespace {

std::string_view TextOf(const char* text) noexcept { return text != nullptr ? text : ""; }

Status ReadValue(const OrtValueInfo* info, ValueView& value) {
  if (info == nullptr) return Status::Ok();
  const OrtApi& api = *Ort().api;
  const char* name = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetValueInfoName(info, &name));
  value.name = TextOf(name);
  if (value.name.empty()) return Status::Ok();
  value.info = info;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.ValueInfo_IsConstantInitializer(info, &value.constant));
  const OrtTypeInfo* type = nullptr;  // owned by the value
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetValueInfoTypeInfo(info, &type));
  if (type == nullptr) return Status::Ok();
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor == nullptr) return Status::Ok();
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetTensorElementType(tensor, &value.type));
  size_t rank = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetDimensionsCount(tensor, &rank));
  value.dims.resize(rank);
  if (rank == 0) return Status::Ok();
  return FromOrt(api.GetDimensions(tensor, value.dims.data(), rank));
}

// Null: there is none. That is an error or null, as versions differ.
const OrtOpAttr* Find(const OrtNode* node, const char* name) noexcept {
  const OrtOpAttr* attribute = nullptr;
  if (!FromOrt(Ort().api->Node_GetAttributeByName(node, name, &attribute)).ok()) return nullptr;
  return attribute;
}

}  // namespace

namespace {

// A constant's elements, which are the graph's.
struct Constant {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const void* data = nullptr;
  int64_t count = 1;
};

std::optional<Constant> ReadConstant(const ValueView& value) {
  const OrtApi& api = *Ort().api;
  const OrtValue* tensor = nullptr;
  if (!value.constant || !FromOrt(api.ValueInfo_GetInitializerValue(value.info, &tensor)).ok() ||
      tensor == nullptr) {
    return std::nullopt;
  }
  Constant constant;
  const int64_t* shape = nullptr;
  size_t rank = 0;
  if (!FromOrt(api.GetTensorElementTypeAndShapeDataReference(tensor, &constant.type, &shape, &rank))
           .ok() ||
      !FromOrt(api.GetTensorData(tensor, &constant.data)).ok()) {
    return std::nullopt;
  }
  for (size_t i = 0; i < rank; ++i) constant.count *= shape[i];
  return constant;
}

}  // namespace

std::optional<std::vector<int64_t>> ValueView::ConstantInts() const {
  const std::optional<Constant> read = ReadConstant(*this);
  if (!read) return std::nullopt;
  if (read->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
    const auto* first = static_cast<const int64_t*>(read->data);
    return std::vector<int64_t>(first, first + read->count);
  }
  if (read->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) {
    const auto* first = static_cast<const int32_t*>(read->data);
    return std::vector<int64_t>(first, first + read->count);
  }
  return std::nullopt;
}

std::span<const std::byte> ValueView::ConstantBytes() const {
  const std::optional<Constant> read = ReadConstant(*this);
  const size_t bytes = read ? ElementBytes(read->type) : 0;
  if (bytes == 0 || read->data == nullptr) return {};
  return {static_cast<const std::byte*>(read->data), static_cast<size_t>(read->count) * bytes};
}

std::optional<double> ValueView::ConstantNumber() const {
  const std::optional<Constant> read = ReadConstant(*this);
  if (!read || read->count != 1 || read->data == nullptr) return std::nullopt;
  if (const std::optional<DataType> known = DataTypeOf(read->type)) {
    return LoadElement(read->data, *known, 0);
  }
  const std::optional<std::vector<int64_t>> ints = ConstantInts();
  return ints ? std::optional(static_cast<double>(ints->front())) : std::nullopt;
}

Result<NodeView> NodeView::Read(const OrtNode* node) {
  const OrtApi& api = *Ort().api;
  NodeView view;
  view.node_ = node;
  const char* text = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetOperatorType(node, &text));
  view.op_ = TextOf(text);
  text = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetDomain(node, &text));
  view.domain_ = TextOf(text);
  if (view.domain_ == "ai.onnx") view.domain_ = "";
  text = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetName(node, &text));
  view.name_ = TextOf(text);
  text = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetEpName(node, &text));
  view.owner_ = TextOf(text);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetSinceVersion(node, &view.version_));

  size_t count = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetNumInputs(node, &count));
  std::vector<const OrtValueInfo*> values(count);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetInputs(node, values.data(), count));
  view.inputs_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    TUNABLEOP_RETURN_IF_ERROR(ReadValue(values[i], view.inputs_[i]));
  }
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetNumOutputs(node, &count));
  values.assign(count, nullptr);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Node_GetOutputs(node, values.data(), count));
  view.outputs_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    TUNABLEOP_RETURN_IF_ERROR(ReadValue(values[i], view.outputs_[i]));
  }
  return view;
}

ONNXTensorElementDataType NodeView::InputType(size_t input) const noexcept {
  return Has(input) ? inputs_[input].type : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

ONNXTensorElementDataType NodeView::OutputType(size_t output) const noexcept {
  return Gives(output) ? outputs_[output].type : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

int64_t NodeView::Int(const char* attribute, int64_t missing) const noexcept {
  const OrtOpAttr* found = Find(node_, attribute);
  if (found == nullptr) return missing;
  int64_t value = 0;
  size_t size = 0;
  const bool read =
      FromOrt(Ort().api->ReadOpAttr(found, ORT_OP_ATTR_INT, &value, sizeof(value), &size)).ok();
  return read ? value : missing;
}

float NodeView::Float(const char* attribute, float missing) const noexcept {
  const OrtOpAttr* found = Find(node_, attribute);
  if (found == nullptr) return missing;
  float value = 0;
  size_t size = 0;
  const bool read =
      FromOrt(Ort().api->ReadOpAttr(found, ORT_OP_ATTR_FLOAT, &value, sizeof(value), &size)).ok();
  return read ? value : missing;
}

std::optional<std::vector<int64_t>> NodeView::Ints(const char* attribute) const {
  const OrtOpAttr* found = Find(node_, attribute);
  if (found == nullptr) return std::nullopt;
  std::vector<int64_t> values(64);  // more than any node of the specification has
  size_t bytes = 0;
  if (!FromOrt(Ort().api->ReadOpAttr(found, ORT_OP_ATTR_INTS, values.data(),
                                     values.size() * sizeof(int64_t), &bytes))
           .ok()) {
    return std::nullopt;
  }
  values.resize(bytes / sizeof(int64_t));
  return values;
}

std::string NodeView::String(const char* attribute, std::string missing) const {
  const OrtOpAttr* found = Find(node_, attribute);
  if (found == nullptr) return missing;
  std::string text(256, '\0');  // more than any word of the specification
  size_t size = 0;
  if (!FromOrt(Ort().api->ReadOpAttr(found, ORT_OP_ATTR_STRING, text.data(), text.size(), &size))
           .ok()) {
    return missing;
  }
  text.resize(size);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

bool NodeView::HasAttribute(const char* attribute) const noexcept {
  return Find(node_, attribute) != nullptr;
}

Result<std::vector<NodeView>> ReadNodes(const OrtGraph* graph) {
  const OrtApi& api = *Ort().api;
  size_t count = 0;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetNumNodes(graph, &count));
  std::vector<const OrtNode*> nodes(count);
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.Graph_GetNodes(graph, nodes.data(), count));
  std::vector<NodeView> views;
  views.reserve(count);
  for (const OrtNode* node : nodes) {
    Result<NodeView> view = NodeView::Read(node);
    if (!view.ok()) return view.TakeStatus();
    views.push_back(std::move(view).value());
  }
  return views;
}

}  // namespace tunableop
