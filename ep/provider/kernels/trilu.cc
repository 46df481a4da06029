// Trilu: a triangle of each matrix.
#include "kernels/fill_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Trilu final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    upper_ = info.Int("upper", 1) != 0;
    const ONNXTensorElementDataType type = info.InputType(0);
    return Find("fill", WidthType(type), WidthType(type), "fill_trilu", &function_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    if (x.dims.size() < 2) return context.TooManyDims({x.dims});
    Result<DeviceTensor> k = context.Input(1);
    if (!k.ok()) return k.TakeStatus();
    const bool given = k.value().present() && k.value().elements() > 0;
    Result<DeviceTensor> output = context.Output(0, x.dims);
    if (!output.ok()) return output.TakeStatus();
    if (x.elements() == 0) return Status::Ok();
    const int64_t diagonal = given ? HostInteger(k.value()) : 0;
    return context.Launch(
        function_, device::PrepareTrilu(x.data, x.dims, diagonal, upper_, output.value().data));
  }

 private:
  DeviceFunction function_;
  bool upper_ = true;
};

}  // namespace

OrtStatus* CreateTrilu(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Trilu>(state, info, kernel);
}

}  // namespace tunableop
