#include "provider/operator_checks.h"

#include "provider/element_type.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/type_name.h"

namespace tunableop {

std::optional<std::string> SecondTypeDiffers(const NodeView& node) {
  if (node.InputType(0) == node.InputType(1)) return std::nullopt;
  return "input types " + std::string(TypeName(node.InputType(0))) + " and " +
         std::string(TypeName(node.InputType(1))) + " together have no kernel";
}

std::optional<std::string> MoreThanTwoInputs(const NodeView& node) {
  if (node.inputs().size() <= 2) return std::nullopt;
  return std::to_string(node.inputs().size()) + " inputs, and its kernel has two";
}

std::optional<std::string> HasBias(const NodeView& node) {
  if (!node.Has(1)) return std::nullopt;
  return "input 1, the bias, which its kernel does not add";
}

std::optional<std::string> CastsToOthers(const NodeView& node) {
  const ONNXTensorElementDataType type = node.OutputType(0);
  if (*ModuleType(type) != '\0') return std::nullopt;
  return "a cast to " + std::string(TypeName(type)) + " has no kernel";
}

std::optional<std::string> NotOneRowOfScales(const NodeView& node) {
  if (std::optional<std::string> why = SecondTypeDiffers(node)) return why;
  const bool statistics = node.Gives(1) || node.Gives(2);
  if (statistics && node.InputType(0) == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) {
    return "statistics of fp64, which its kernel does not give";
  }
  const std::vector<int64_t>& x = node.inputs()[0].dims;
  const std::vector<int64_t>& scale = node.inputs()[1].dims;
  if (x.empty() || scale.empty()) return std::nullopt;  // not known
  const std::optional<size_t> axis = AxisOf(node.Int("axis", -1), x.size());
  if (!axis) return std::nullopt;  // an error of the model
  bool same = scale.size() == x.size() - *axis;
  for (size_t i = 0; same && i < scale.size(); ++i) {
    const int64_t dim = x[*axis + i];
    same = scale[i] == dim || scale[i] < 0 || dim < 0;
  }
  if (same) return std::nullopt;
  return "the scale is broadcast, which its kernel does not do";
}

std::optional<std::string> ModOfFloats(const NodeView& node) {
  if (!DataTypeOf(node.InputType(0)) || node.Int("fmod", 0) != 0) return std::nullopt;
  return "floating point with fmod=0 has no kernel";
}

std::optional<std::string> IndicesAreOthers(const NodeView& node) {
  const ONNXTensorElementDataType type = node.InputType(1);
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
    return std::nullopt;
  }
  return "indices of type " + std::string(TypeName(type)) + " have no kernel";
}

}  // namespace tunableop
