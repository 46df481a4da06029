#include "provider/operators.h"

#include <array>

#include "provider/kernels/op_kernels.h"
#include "provider/type_name.h"

namespace tunableop {
namespace {

constexpr TypeSet Types(std::initializer_list<ONNXTensorElementDataType> types) noexcept {
  TypeSet set = 0;
  for (const ONNXTensorElementDataType type : types)
    set |= TypeSet{1} << static_cast<uint32_t>(type);
  return set;
}

// All that are moved without being looked at.
constexpr TypeSet kMoved =
    Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL});

constexpr uint32_t kFirst = 1U << 0U;
constexpr uint32_t kSecond = 1U << 1U;

constexpr auto kTable = std::to_array<Operator>({
    // Other dimensions for the same elements.
    {.domain = "",
     .op = "Flatten",
     .first = 1,
     .last = 25,
     .create = &CreateFlatten,
     .types = kMoved,
     .alias = true},
    {.domain = "",
     .op = "Identity",
     .first = 1,
     .last = 25,
     .create = &CreateIdentity,
     .types = kMoved,
     .alias = true},
    {.domain = "",
     .op = "Reshape",
     .first = 5,
     .last = 25,
     .create = &CreateReshape,
     .types = kMoved,
     .host_inputs = kSecond,
     .alias = true},
    {.domain = "",
     .op = "Squeeze",
     .first = 1,
     .last = 25,
     .create = &CreateSqueeze,
     .types = kMoved,
     .host_inputs = kSecond,
     .alias = true},
    {.domain = "",
     .op = "Unsqueeze",
     .first = 1,
     .last = 25,
     .create = &CreateUnsqueeze,
     .types = kMoved,
     .host_inputs = kSecond,
     .alias = true},
    // Dimensions as values.
    {.domain = "",
     .op = "Shape",
     .first = 1,
     .last = 25,
     .create = &CreateShape,
     .types = kMoved,
     .host_outputs = kFirst},
    {.domain = "",
     .op = "Size",
     .first = 1,
     .last = 25,
     .create = &CreateSize,
     .types = kMoved,
     .host_outputs = kFirst},
});

}  // namespace

std::span<const Operator> Operators() noexcept { return kTable; }

const Operator* FindOperator(std::string_view domain, std::string_view op) noexcept {
  for (const Operator& row : kTable) {
    if (row.op == op && row.domain == domain) return &row;
  }
  return nullptr;
}

std::optional<std::string> WhyNotTaken(const Operator& op, const NodeView& node) {
  if (node.version() < op.first || node.version() > op.last) {
    return std::string(op.op) + " of opset " + std::to_string(node.version()) + " is " +
           (node.version() < op.first ? "older" : "newer") + " than opsets " +
           std::to_string(op.first) + " to " + std::to_string(op.last) + ", which have kernels";
  }
  const ONNXTensorElementDataType type = node.InputType(op.typed);
  if ((op.types >> static_cast<uint32_t>(type) & 1U) == 0) {
    return "input type " + std::string(TypeName(type)) + " has no kernel of " + op.op;
  }
  return op.why_not != nullptr ? op.why_not(node) : std::nullopt;
}

}  // namespace tunableop
