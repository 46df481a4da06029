// ONNX Runtime's element types as the kernels' ones.
#pragma once

#include <optional>

#include "abi/ort_c_api.h"
#include "gemm/problem.h"

namespace tunableop {

// Nothing: no GEMM of that type exists here.
constexpr std::optional<DataType> DataTypeOf(ONNXTensorElementDataType type) noexcept {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return DataType::kFloat32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return DataType::kFloat16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return DataType::kBFloat16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return DataType::kFloat64;
    default:
      return std::nullopt;
  }
}

}  // namespace tunableop
