// TopK: the largest or smallest along an axis, in order.
#include "kernels/topk_launch.h"

#include <array>
#include <string>

#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class TopK final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", -1);
    smallest_ = info.Int("largest", 1) == 0;
    const char* const type = ModuleType(info.InputType(0));
    return Find("topk", type, type, "topk", &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const auto& [x, given] = inputs;
    const std::optional<size_t> axis = AxisOf(axis_, x.dims.size());
    if (!axis) return context.NoSuchAxis(axis_, x.dims);
    const int64_t kept = given.elements() == 1 ? HostInteger(given) : -1;
    if (kept < 0 || kept > x.dims[*axis]) {
      return context.Error(StatusCode::kInvalidArgument,
                           DimsText(x.dims) + " has no " + std::to_string(kept) +
                               " elements along axis " + std::to_string(axis_));
    }
    device::Dims dims(x.dims);
    dims[static_cast<int>(*axis)] = kept;
    Result<DeviceTensor> values = context.Output(0, dims.view());
    if (!values.ok()) return values.TakeStatus();
    Result<DeviceTensor> places = context.Output(1, dims.view());
    if (!places.ok()) return places.TakeStatus();
    if (values.value().elements() == 0) return Status::Ok();
    return context.Launch(
        function_, device::PrepareTopK(x.data, x.dims, *axis, kept, smallest_, values.value().data,
                                       static_cast<int64_t*>(places.value().data)));
  }

 private:
  DeviceFunction function_;
  int64_t axis_ = -1;
  bool smallest_ = false;
};

}  // namespace

OrtStatus* CreateTopK(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<TopK>(state, info, kernel);
}

}  // namespace tunableop
