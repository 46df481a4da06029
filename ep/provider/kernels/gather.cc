// Operators that pick elements by indices on the card.
#include <array>

#include "kernels/gather_launch.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Picker : public OpKernel {
 protected:
  Status FindEntry(const OpInfo& info, const char* entry) {
    const ONNXTensorElementDataType type = info.InputType(0);
    bytes_ = ElementBytes(type);
    return Find("gather", WidthType(type), ModuleType(info.InputType(1)), entry, &function_);
  }
  const DeviceFunction& function() const noexcept { return function_; }
  size_t bytes() const noexcept { return bytes_; }

 private:
  DeviceFunction function_;
  size_t bytes_ = 0;
};

class Gather final : public Picker {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", 0);
    return FindEntry(info, "gather");
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const auto& [x, indices] = inputs;
    const std::optional<size_t> axis = AxisOf(axis_, x.dims.size());
    if (!axis) return context.NoSuchAxis(axis_, x.dims);
    if (x.dims.size() + indices.dims.size() > device::Dims::kMost) {
      return context.TooManyDims({x.dims, indices.dims});
    }
    device::Dims dims(x.dims.first(*axis));
    for (const int64_t dim : indices.dims) dims.Append(dim);
    for (const int64_t dim : x.dims.subspan(*axis + 1)) dims.Append(dim);
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    return context.Launch(
        function(), device::PrepareGather(x.data, x.dims, *axis, indices.data, indices.elements(),
                                          output.value().data, bytes()));
  }

 private:
  int64_t axis_ = 0;
};

class GatherElements final : public Picker {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", 0);
    return FindEntry(info, "gather_elements");
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const auto& [x, indices] = inputs;
    const std::optional<size_t> axis = AxisOf(axis_, x.dims.size());
    if (!axis) return context.NoSuchAxis(axis_, x.dims);
    Result<DeviceTensor> output = context.Output(0, indices.dims);
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    const auto call = device::PrepareGatherElements(x.data, x.dims, *axis, indices.data,
                                                    indices.dims, output.value().data);
    if (!call) return context.TooManyDims({x.dims, indices.dims});
    return context.Launch(function(), *call);
  }

 private:
  int64_t axis_ = 0;
};

class GatherNd final : public Picker {
 public:
  Status Init(const OpInfo& info) override {
    batch_dims_ = info.Int("batch_dims", 0);
    return FindEntry(info, "gather_nd");
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const auto& [x, indices] = inputs;
    const auto batches = static_cast<size_t>(batch_dims_);
    const int64_t parts = indices.dims.empty() ? 0 : indices.dims.back();
    const bool fits = batch_dims_ >= 0 && batches < indices.dims.size() && parts > 0 &&
                      batches + static_cast<size_t>(parts) <= x.dims.size();
    if (!fits) return context.TooManyDims({x.dims, indices.dims});
    device::Dims dims(indices.dims.first(indices.dims.size() - 1));
    for (const int64_t dim : x.dims.subspan(batches + static_cast<size_t>(parts))) {
      dims.Append(dim);
    }
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    const auto call = device::PrepareGatherNd(x.data, x.dims, batches, indices.data, indices.dims,
                                              output.value().data);
    if (!call) return context.TooManyDims({x.dims, indices.dims});
    return context.Launch(function(), *call);
  }

 private:
  int64_t batch_dims_ = 0;
};

}  // namespace

OrtStatus* CreateGather(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Gather>(state, info, kernel);
}
OrtStatus* CreateGatherElements(void* state, const OrtKernelInfo* info,
                                OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<GatherElements>(state, info, kernel);
}
OrtStatus* CreateGatherNd(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<GatherNd>(state, info, kernel);
}

}  // namespace tunableop
