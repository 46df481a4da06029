#include "provider/operator_checks.h"

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

}  // namespace tunableop
