// Elementwise operators of any number of inputs, which broadcast: a chain of the kernel for two.
#include <array>
#include <string_view>

#include "kernels/binary_launch.h"
#include "kernels/copy_launch.h"
#include "kernels/unary_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Variadic final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const ONNXTensorElementDataType type = info.InputType(0);
    const std::string_view op = info.op().op;
    bytes_ = ElementBytes(type);
    mean_ = op == "Mean" && info.inputs() > 1;
    if (mean_) {
      TUNABLEOP_RETURN_IF_ERROR(
          Find("unary", ModuleType(type), ModuleType(type), "unary_scale", &scale_));
    }
    if (info.inputs() > 2) {
      TUNABLEOP_RETURN_IF_ERROR(Find("copy", WidthType(type), WidthType(type), "copy", &copy_));
    }
    const char* const entry = op == "Max"   ? "binary_max"
                              : op == "Min" ? "binary_min"
                                            : "binary_add";
    return Find("binary", ModuleType(type), ModuleType(type), entry, &function_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> first = context.Input(0);
    if (!first.ok()) return first.TakeStatus();
    device::Dims dims(first.value().dims);
    for (size_t i = 1; i < context.inputs(); ++i) {
      Result<DeviceTensor> input = context.Input(i);
      if (!input.ok()) return input.TakeStatus();
      const device::Dims so_far = dims;
      const std::optional<device::Dims> wider = Broadcast(so_far.view(), input.value().dims);
      if (!wider) return context.TooManyDims({so_far.view(), input.value().dims});
      dims = *wider;
    }
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    const DeviceTensor& out = output.value();
    if (out.elements() == 0) return Status::Ok();
    if (context.inputs() == 1) return context.Copy(out, first.value());
    TUNABLEOP_RETURN_IF_ERROR(Chain(context, first.value(), out));
    if (!mean_) return Status::Ok();
    auto call = device::PrepareUnary(out.data, out.data, out.elements(), bytes_, bytes_);
    call.args.alpha = 1.0 / static_cast<double>(context.inputs());
    return context.Launch(scale_, call);
  }

 private:
  static std::optional<device::Dims> Broadcast(device::DimsView a, device::DimsView b) noexcept {
    const std::array<device::DimsView, 2> both{a, b};
    return device::BroadcastDims(both);
  }

  // What has been reached lies in the output, and is of its shape: a kernel that reads and writes
  // the same memory must have every element in its place.
  Status Chain(const OpContext& context, const DeviceTensor& first, const DeviceTensor& out) const {
    Result<DeviceTensor> second = context.Input(1);
    if (!second.ok()) return second.TakeStatus();
    const std::optional<device::Dims> both = Broadcast(first.dims, second.value().dims);
    size_t next = 1;
    if (both &&
        std::equal(out.dims.begin(), out.dims.end(), both->view().begin(), both->view().end())) {
      TUNABLEOP_RETURN_IF_ERROR(Combine(context, first, second.value(), out));
      next = 2;
    } else {
      const auto call = device::PrepareExpand(first.data, first.dims, out.data, out.dims, bytes_);
      if (!call) return context.TooManyDims({first.dims, out.dims});
      TUNABLEOP_RETURN_IF_ERROR(context.Launch(copy_, *call));
    }
    for (; next < context.inputs(); ++next) {
      Result<DeviceTensor> input = context.Input(next);
      if (!input.ok()) return input.TakeStatus();
      TUNABLEOP_RETURN_IF_ERROR(Combine(context, out, input.value(), out));
    }
    return Status::Ok();
  }

  Status Combine(const OpContext& context, const DeviceTensor& a, const DeviceTensor& b,
                 const DeviceTensor& out) const {
    const auto call =
        device::PrepareBinary(a.data, a.dims, b.data, b.dims, out.data, bytes_, bytes_);
    if (!call) return context.TooManyDims({a.dims, b.dims});
    return context.Launch(function_, *call);
  }

  DeviceFunction function_;
  DeviceFunction copy_;
  DeviceFunction scale_;
  size_t bytes_ = 0;
  bool mean_ = false;
};

}  // namespace

OrtStatus* CreateVariadic(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Variadic>(state, info, kernel);
}

}  // namespace tunableop
