// Operators that write elements where indices on the card say.
#include "kernels/scatter_launch.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Scatterer : public OpKernel {
 public:
  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 3> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    Result<DeviceTensor> output = context.Output(0, inputs[0].dims);
    if (!output.ok()) return output.TakeStatus();
    TUNABLEOP_RETURN_IF_ERROR(context.Copy(output.value(), inputs[0]));
    return Scatter(context, inputs[1], inputs[2], output.value());
  }

 protected:
  virtual Status Scatter(const OpContext& context, const DeviceTensor& indices,
                         const DeviceTensor& updates, const DeviceTensor& out) const = 0;

  Status FindEntry(const OpInfo& info, const char* entry) {
    return Find("scatter", WidthType(info.InputType(0)), ModuleType(info.InputType(1)), entry,
                &function_);
  }
  const DeviceFunction& function() const noexcept { return function_; }

 private:
  DeviceFunction function_;
};

class ScatterElements final : public Scatterer {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", 0);
    return FindEntry(info, "scatter_elements");
  }

 protected:
  Status Scatter(const OpContext& context, const DeviceTensor& indices, const DeviceTensor& updates,
                 const DeviceTensor& out) const override {
    const std::optional<size_t> axis = AxisOf(axis_, out.dims.size());
    if (!axis) return context.NoSuchAxis(axis_, out.dims);
    const bool alike = std::equal(indices.dims.begin(), indices.dims.end(), updates.dims.begin(),
                                  updates.dims.end());
    if (!alike) return context.TooManyDims({indices.dims, updates.dims});
    if (indices.elements() == 0) return Status::Ok();
    const auto call = device::PrepareScatterElements(indices.data, indices.dims, *axis,
                                                     updates.data, out.data, out.dims);
    if (!call) return context.TooManyDims({out.dims, indices.dims});
    return context.Launch(function(), *call);
  }

 private:
  int64_t axis_ = 0;
};

class ScatterNd final : public Scatterer {
 public:
  Status Init(const OpInfo& info) override { return FindEntry(info, "scatter_nd"); }

 protected:
  Status Scatter(const OpContext& context, const DeviceTensor& indices, const DeviceTensor& updates,
                 const DeviceTensor& out) const override {
    if (updates.elements() == 0) return Status::Ok();
    const auto call =
        device::PrepareScatterNd(indices.data, indices.dims, updates.data, out.data, out.dims);
    if (!call || updates.elements() != call->args.rows * call->args.inner) {
      return context.TooManyDims({out.dims, indices.dims, updates.dims});
    }
    return context.Launch(function(), *call);
  }
};

class OneHot final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", -1);
    return Find("scatter", WidthType(info.InputType(2)), ModuleType(info.InputType(0)),
                "scatter_one_hot", &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 3> inputs;  // indices, depth, values
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const std::span<const int64_t> places = inputs[0].dims;
    const int64_t depth = inputs[1].elements() == 1 ? HostInteger(inputs[1]) : 0;
    const std::optional<size_t> axis = AxisOf(axis_, places.size() + 1);
    if (!axis) return context.NoSuchAxis(axis_, places);
    if (depth < 1 || inputs[2].elements() != 2) {
      return context.Error(StatusCode::kInvalidArgument,
                           "depth must be one number above 0, and values two");
    }
    device::Dims dims(places.first(*axis));
    dims.Append(depth);
    for (const int64_t dim : places.subspan(*axis)) dims.Append(dim);
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    return context.Launch(
        function_, device::PrepareOneHot(inputs[0].data, ProductOf(places.first(*axis)), depth,
                                         ProductOf(places.subspan(*axis)), inputs[2].data,
                                         output.value().data));
  }

 private:
  DeviceFunction function_;
  int64_t axis_ = -1;
};

}  // namespace

OrtStatus* CreateOneHot(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<OneHot>(state, info, kernel);
}
OrtStatus* CreateScatterElements(void* state, const OrtKernelInfo* info,
                                 OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<ScatterElements>(state, info, kernel);
}
OrtStatus* CreateScatterNd(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<ScatterNd>(state, info, kernel);
}

}  // namespace tunableop
