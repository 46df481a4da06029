#include "provider/operator_checks.h"

#include <algorithm>

#include "provider/element_type.h"
#include "provider/kernels/einsum_equation.h"
#include "provider/kernels/element.h"
#include "provider/type_name.h"

namespace tunableop {

std::optional<std::string> SecondTypeDiffers(const NodeView& node) {
  if (node.InputType(0) == node.InputType(1)) return std::nullopt;
  return "input types " + std::string(TypeName(node.InputType(0))) + " and " +
         std::string(TypeName(node.InputType(1))) + " together have no kernel";
}

std::optional<std::string> CastsToOthers(const NodeView& node) {
  const ONNXTensorElementDataType type = node.OutputType(0);
  if (*ModuleType(type) != '\0') return std::nullopt;
  return "a cast to " + std::string(TypeName(type)) + " has no kernel";
}

std::optional<std::string> NormOfOthers(const NodeView& node) {
  const bool statistics = node.Gives(1) || node.Gives(2);
  if (statistics && node.InputType(0) == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) {
    return "statistics of fp64, which its kernel does not give";
  }
  return SecondTypeDiffers(node);
}

std::optional<std::string> RotaryOfOthers(const NodeView& node) {
  if (node.Int("is_packed_batching", 0) != 0) return "packed batches have no kernel";
  if (node.Float("scale", 1.0F) != 1.0F) return "a scale has no kernel";
  const size_t cache = node.domain().empty() ? 1 : 2;
  if (node.InputType(cache) == node.InputType(0)) return std::nullopt;
  return "caches of another type than the input's have no kernel";
}

std::optional<std::string> ConvOfOthers(const NodeView& node) {
  size_t rank = std::max(node.inputs()[0].dims.size(), node.inputs()[1].dims.size());
  if (const auto window = node.Ints("kernel_shape")) rank = window->size() + 2;
  if (rank == 0) return "the number of its dimensions is not known";
  if (rank >= 3 && rank <= 5) return std::nullopt;
  return std::to_string(rank - std::min<size_t>(rank, 2)) +
         " dimensions, and its kernel has one to three";
}

std::optional<std::string> PoolOfOthers(const NodeView& node) {
  if (node.Gives(1) && node.Int("storage_order", 0) != 0) {
    return "places counted by columns have no kernel";
  }
  const size_t rank = node.Ints("kernel_shape").value_or(std::vector<int64_t>()).size();
  if (rank >= 1 && rank <= 3) return std::nullopt;
  return std::to_string(rank) + " dimensions, and its kernel has one to three";
}

std::optional<std::string> ChannelsOfOthers(const NodeView& node) {
  for (size_t i = 1; i < node.outputs().size(); ++i) {
    if (node.Gives(i)) return "statistics as an output have no kernel";
  }
  if (node.Int("training_mode", 0) != 0) return "training has no kernel";
  const ONNXTensorElementDataType own = node.InputType(1);
  for (size_t i = 2; i < node.inputs().size(); ++i) {
    if (node.InputType(i) == own) continue;
    return "channels' numbers of several types have no kernel";
  }
  const bool norm = node.op() != "BatchNormalization";  // which calculates in one type
  if (own == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT && !norm &&
      node.InputType(0) != ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE) {
    return std::nullopt;
  }
  return SecondTypeDiffers(node);
}

std::optional<std::string> NoProduct(const NodeView& node) {
  const std::string equation = node.String("equation", "");
  const std::optional<EinsumEquation> read = ReadEinsum(equation);
  if (!read || read->operands.size() != node.inputs().size()) {
    return equation + " is no product of two operands";
  }
  return node.inputs().size() == 2 ? SecondTypeDiffers(node) : std::nullopt;
}

std::optional<std::string> ResizeOfOthers(const NodeView& node) {
  const std::string mode = node.String("mode", "nearest");
  const std::string place = node.String("coordinate_transformation_mode", "half_pixel");
  const std::string policy = node.String("keep_aspect_ratio_policy", "stretch");
  if (mode != "nearest" && mode != "linear") return "mode=" + mode + " has no kernel";
  if (place.starts_with("tf_")) return "places of " + place + " have no kernel";
  if (policy != "stretch") return "keep_aspect_ratio_policy=" + policy + " has no kernel";
  if (mode == "linear" && node.Int("antialias", 0) != 0) return "antialias has no kernel";
  return std::nullopt;
}

std::optional<std::string> TransposedBatches(const NodeView& node) {
  if (node.Int("transBatchA", 0) != 0 || node.Int("transBatchB", 0) != 0) {
    return "transposed batches have no kernel";
  }
  return SecondTypeDiffers(node);
}

std::optional<std::string> OneHotOfOthers(const NodeView& node) {
  const ONNXTensorElementDataType type = node.InputType(0);
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64) {
    return std::nullopt;
  }
  return "indices of type " + std::string(TypeName(type)) + " have no kernel";
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

std::optional<std::string> ScattersOtherwise(const NodeView& node) {
  const std::string reduction = node.String("reduction", "none");
  if (reduction != "none") return "reduction=" + reduction + " has no kernel";
  return IndicesAreOthers(node);
}

std::optional<std::string> MakesOthers(const NodeView& node) {
  const ONNXTensorElementDataType type = node.OutputType(0);
  if (ElementBytes(type) != 0) return std::nullopt;
  return "an output of type " + std::string(TypeName(type)) + " has no kernel";
}

}  // namespace tunableop
