// Base of the operators that move elements as they are: what they share is a copy by strides.
#pragma once

#include <optional>

#include "kernels/copy_launch.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"

namespace tunableop {

class Mover : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    InitType(info);
    return Find("copy", WidthType(type_), WidthType(type_), "copy", &copy_);
  }

 protected:
  // For one that needs no copies by strides.
  void InitType(const OpInfo& info) noexcept {
    type_ = info.InputType(0);
    bytes_ = ElementBytes(type_);
  }

  // `call`: from ep/kernels/copy_launch.h.
  Status Move(const OpContext& context,
              const std::optional<device::Prepared<device::CopyArgs>>& call,
              const DeviceTensor& from, const DeviceTensor& to) const {
    if (!call) return context.TooManyDims({from.dims, to.dims});
    return context.Launch(copy_, *call);
  }

  size_t bytes() const noexcept { return bytes_; }
  ONNXTensorElementDataType type() const noexcept { return type_; }

 private:
  DeviceFunction copy_;
  ONNXTensorElementDataType type_ = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t bytes_ = 0;
};

}  // namespace tunableop
