// Softmax and LogSoftmax. Until opset 12 everything from the axis on is one row.
#include <array>
#include <string_view>

#include "kernels/softmax_launch.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

constexpr int kOneDimension = 13;  // from this opset on

class Softmax final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    whole_ = info.version() < kOneDimension;
    axis_ = info.Int("axis", whole_ ? 1 : -1);
    log_ = info.op().op == std::string_view("LogSoftmax");
    const ONNXTensorElementDataType type = info.InputType(0);
    bytes_ = ElementBytes(type);
    TUNABLEOP_RETURN_IF_ERROR(
        Find("softmax", ModuleType(type), ModuleType(type), "softmax", &rows_));
    return Find("softmax", ModuleType(type), ModuleType(type), "softmax_inner", &inner_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const std::span<const int64_t> dims = input.value().dims;
    Result<DeviceTensor> output = context.Output(0, dims);
    if (!output.ok()) return output.TakeStatus();
    if (input.value().elements() == 0) return Status::Ok();
    // A scalar is a row of one.
    const std::optional<size_t> axis = dims.empty() ? size_t{0} : AxisOf(axis_, dims.size());
    if (!axis) return context.NoSuchAxis(axis_, dims);
    const int64_t outer = ProductOf(dims.first(*axis));
    const int64_t columns = whole_ || dims.empty() ? ProductOf(dims.subspan(*axis)) : dims[*axis];
    const int64_t inner = input.value().elements() / outer / columns;
    if (inner > 1) {
      return context.Launch(
          inner_, device::PrepareSoftmaxInner(input.value().data, output.value().data, outer,
                                              columns, inner, log_));
    }
    const std::array<int64_t, 2> rows{outer, columns};
    device::SoftmaxTensors tensors;
    tensors.x = input.value().data;
    tensors.x_dims = rows;
    tensors.out = output.value().data;
    const auto call = device::PrepareSoftmax(tensors, {.log = log_}, bytes_, bytes_);
    if (!call) return context.TooManyDims({dims});
    return context.Launch(rows_, *call);
  }

 private:
  DeviceFunction rows_;
  DeviceFunction inner_;
  int64_t axis_ = -1;
  size_t bytes_ = 0;
  bool whole_ = false;
  bool log_ = false;
};

}  // namespace

OrtStatus* CreateSoftmax(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Softmax>(state, info, kernel);
}

}  // namespace tunableop
