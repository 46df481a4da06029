// Operators that make one number of many, or of all before it.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/reduce_launch.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

constexpr struct {
  std::string_view op;
  const char* entry;
} kEntries[] = {
    {"ArgMax", "reduce_argmax"},
    {"ArgMin", "reduce_argmin"},
    {"GlobalAveragePool", "reduce_mean"},
    {"GlobalMaxPool", "reduce_max"},
    {"ReduceL1", "reduce_l1"},
    {"ReduceL2", "reduce_l2"},
    {"ReduceMax", "reduce_max"},
    {"ReduceMean", "reduce_mean"},
    {"ReduceMin", "reduce_min"},
    {"ReduceProd", "reduce_prod"},
    {"ReduceSum", "reduce_sum"},
    {"ReduceSumSquare", "reduce_sum_square"},
};

const char* EntryOf(std::string_view op) noexcept {
  for (const auto& row : kEntries) {
    if (row.op == op) return row.entry;
  }
  return "";
}

// The dimensions of a result: without those that are reduced, or with 1 for each.
template <typename Reduced>
device::Dims Left(std::span<const int64_t> dims, bool keeps, const Reduced& reduced) {
  device::Dims left;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!reduced(d)) {
      left.Append(dims[d]);
    } else if (keeps) {
      left.Append(1);
    }
  }
  return left;
}

// Axes are an attribute, later an input in the host's memory.
class Reduce final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    axes_ = info.Ints("axes");
    keep_ = info.Int("keepdims", 1) != 0;
    pools_ = std::string_view(info.op().op).starts_with("Global");
    none_is_none_ = info.Int("noop_with_empty_axes", 0) != 0;
    const ONNXTensorElementDataType type = info.InputType(0);
    bytes_ = ElementBytes(type);
    return Find("reduce", ModuleType(type), ModuleType(type), EntryOf(info.op().op), &function_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    std::optional<std::vector<int64_t>> axes = axes_;
    if (pools_) {
      const bool empty = std::ranges::find(x.dims, 0) != x.dims.end();
      if (x.dims.size() < 3 || (empty && x.dims[0] != 0)) {
        return context.Error(StatusCode::kInvalidArgument, DimsText(x.dims) + " are no images");
      }
      axes.emplace();
      for (size_t i = 2; i < x.dims.size(); ++i) axes->push_back(static_cast<int64_t>(i));
    } else if (!axes) {
      Result<std::optional<std::vector<int64_t>>> given = context.HostInts(1);
      if (!given.ok()) return given.TakeStatus();
      axes = std::move(given).value();
    }
    const bool none = !axes || axes->empty();
    std::array<bool, device::Dims::kMost> reduced{};
    if (none && !none_is_none_)
      reduced.fill(true);  // else each number by itself: a square stays one
    for (size_t i = 0; !none && i < axes->size(); ++i) {
      const std::optional<size_t> axis = AxisOf((*axes)[i], x.dims.size());
      if (!axis) return context.NoSuchAxis((*axes)[i], x.dims);
      reduced[*axis] = true;
    }
    const auto out_dims = Left(x.dims, keep_, [&](size_t d) { return reduced[d]; });
    Result<DeviceTensor> output = context.Output(0, out_dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    const auto call = device::PrepareReduce(x.data, x.dims, {reduced.data(), x.dims.size()},
                                            output.value().data, bytes_);
    if (!call) return context.TooManyDims({x.dims});
    return context.Launch(function_, *call);
  }

 private:
  DeviceFunction function_;
  std::optional<std::vector<int64_t>> axes_;
  bool keep_ = true;
  bool none_is_none_ = false;
  bool pools_ = false;  // all of an image, each channel by itself
  size_t bytes_ = 0;
};

class Arg final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", 0);
    keep_ = info.Int("keepdims", 1) != 0;
    last_ = info.Int("select_last_index", 0) != 0;
    const ONNXTensorElementDataType type = info.InputType(0);
    return Find("reduce", ModuleType(type), ModuleType(type), EntryOf(info.op().op), &function_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    const std::optional<size_t> axis = AxisOf(axis_, x.dims.size());
    if (!axis) return context.NoSuchAxis(axis_, x.dims);
    const auto out_dims = Left(x.dims, keep_, [&](size_t d) { return d == *axis; });
    Result<DeviceTensor> output = context.Output(0, out_dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    if (x.dims[*axis] == 0) {
      return context.Error(StatusCode::kInvalidArgument, "there is no largest of no elements");
    }
    return context.Launch(function_,
                          device::PrepareArg(x.data, x.dims, *axis, last_,
                                             static_cast<int64_t*>(output.value().data)));
  }

 private:
  DeviceFunction function_;
  int64_t axis_ = 0;
  bool keep_ = true;
  bool last_ = false;
};

class CumSum final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    exclusive_ = info.Int("exclusive", 0) != 0;
    reverse_ = info.Int("reverse", 0) != 0;
    const ONNXTensorElementDataType type = info.InputType(0);
    return Find("reduce", ModuleType(type), ModuleType(type), "reduce_cumsum", &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const auto& [x, along] = inputs;
    if (along.elements() != 1) {
      return context.Error(StatusCode::kInvalidArgument, "axis must be a scalar");
    }
    const int64_t asked = HostInteger(along);
    const std::optional<size_t> axis = AxisOf(asked, x.dims.size());
    if (!axis) return context.NoSuchAxis(asked, x.dims);
    Result<DeviceTensor> output = context.Output(0, x.dims);
    if (!output.ok()) return output.TakeStatus();
    if (x.elements() == 0) return Status::Ok();
    return context.Launch(function_, device::PrepareCumSum(x.data, x.dims, *axis, exclusive_,
                                                           reverse_, output.value().data));
  }

 private:
  DeviceFunction function_;
  bool exclusive_ = false;
  bool reverse_ = false;
};

}  // namespace

OrtStatus* CreateArg(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Arg>(state, info, kernel);
}
OrtStatus* CreateCumSum(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<CumSum>(state, info, kernel);
}
OrtStatus* CreateReduce(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Reduce>(state, info, kernel);
}

}  // namespace tunableop
