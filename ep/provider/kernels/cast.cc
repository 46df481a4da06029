// Cast and CastLike.
#include "kernels/cast_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Cast final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const ONNXTensorElementDataType in = info.InputType(0);
    const ONNXTensorElementDataType out = info.OutputType(0);
    in_bytes_ = ElementBytes(in);
    out_bytes_ = ElementBytes(out);
    if (in == out) return Status::Ok();
    return Find("cast", ModuleType(in), ModuleType(out), "cast", &function_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    Result<DeviceTensor> output = context.Output(0, input.value().dims);
    if (!output.ok()) return output.TakeStatus();
    const int64_t count = input.value().elements();
    if (count == 0) return Status::Ok();
    if (!function_) return context.Copy(output.value(), input.value());
    return context.Launch(function_, device::PrepareCast(input.value().data, output.value().data,
                                                         count, in_bytes_, out_bytes_));
  }

 private:
  DeviceFunction function_;  // none: the types are the same
  size_t in_bytes_ = 0;
  size_t out_bytes_ = 0;
};

}  // namespace

OrtStatus* CreateCast(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Cast>(state, info, kernel);
}

}  // namespace tunableop
