// BiasGelu and FastGelu of com.microsoft: a row of biases, then GELU.
#include <array>
#include <string_view>

#include "kernels/bias_act_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class BiasGelu final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const ONNXTensorElementDataType type = info.InputType(0);
    bytes_ = ElementBytes(type);
    const bool by_tanh = info.op().op == std::string_view("FastGelu");
    return Find("bias_act", ModuleType(type), ModuleType(type),
                by_tanh ? "bias_gelu_tanh" : "bias_gelu", &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const auto& [x, bias] = inputs;
    const int64_t columns = x.dims.empty() ? 1 : x.dims.back();
    if (bias.present() && bias.elements() != columns) {
      return context.TooManyDims({x.dims, bias.dims});
    }
    Result<DeviceTensor> output = context.Output(0, x.dims);
    if (!output.ok()) return output.TakeStatus();
    if (x.elements() == 0) return Status::Ok();
    device::BiasActTensors tensors;
    tensors.x = x.data;
    tensors.x_stride = columns;
    tensors.bias = bias.data;
    tensors.out = output.value().data;
    return context.Launch(
        function_, device::PrepareBiasAct(tensors, x.elements() / columns, columns, 1.0, bytes_));
  }

 private:
  DeviceFunction function_;
  size_t bytes_ = 0;
};

}  // namespace

OrtStatus* CreateBiasGelu(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<BiasGelu>(state, info, kernel);
}

}  // namespace tunableop
