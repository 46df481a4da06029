// ONNX Runtime's element types as the modules of ep/kernels are asked for.
#pragma once

#include <cstddef>

#include "abi/ort_c_api.h"

namespace tunableop {

// "f16": to calculate with; "": no module knows the type.
constexpr const char* ModuleType(ONNXTensorElementDataType type) noexcept {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return "f32";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return "f16";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return "bf16";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return "f64";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return "i32";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return "i64";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return "u8";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return "b";
    default:
      return "";
  }
}

// Bytes of one element; 0 for what no card's memory holds.
constexpr size_t ElementBytes(ONNXTensorElementDataType type) noexcept {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
      return 8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
      return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
      return 2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return 1;
    default:
      return 0;
  }
}

// "w4": to be moved only.
constexpr const char* WidthType(ONNXTensorElementDataType type) noexcept {
  switch (ElementBytes(type)) {
    case 8:
      return "w8";
    case 4:
      return "w4";
    case 2:
      return "w2";
    case 1:
      return "w1";
    default:
      return "";
  }
}

}  // namespace tunableop
