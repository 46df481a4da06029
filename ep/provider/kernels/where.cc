// Where.
#include <array>

#include "kernels/where_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Where final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const ONNXTensorElementDataType type = info.InputType(1);
    bytes_ = ElementBytes(type);
    return Find("where", WidthType(type), WidthType(type), "where", &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 3> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const std::array<device::DimsView, 3> shapes{inputs[0].dims, inputs[1].dims, inputs[2].dims};
    const std::optional<device::Dims> dims = device::BroadcastDims(shapes);
    if (!dims) return context.TooManyDims({shapes[0], shapes[1], shapes[2]});
    Result<DeviceTensor> output = context.Output(0, dims->view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    const auto call =
        device::PrepareWhere({inputs[0].data, shapes[0]}, {inputs[1].data, shapes[1]},
                             {inputs[2].data, shapes[2]}, output.value().data, bytes_);
    if (!call) return context.TooManyDims({shapes[0], shapes[1], shapes[2]});
    return context.Launch(function_, *call);
  }

 private:
  DeviceFunction function_;
  size_t bytes_ = 0;
};

}  // namespace

OrtStatus* CreateWhere(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Where>(state, info, kernel);
}

}  // namespace tunableop
