// ONNX Runtime's element types by name.
#pragma once

#include <string_view>

#include "abi/ort_c_api.h"

namespace tunableop {

// "fp32", "fp16", "int32" ... as the ONNX specification's users call them.
std::string_view TypeName(ONNXTensorElementDataType type) noexcept;

}  // namespace tunableop
