// Operators that normalise rows: with a mean (LayerNormalization) and without (Simplified...,
// RMS...), of a sum (Skip...) or of one input.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "kernels/binary_launch.h"
#include "kernels/layer_norm_launch.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

// Which input and output is what; kNone: there is none.
constexpr size_t kNone = 99;
struct Layout {
  std::string_view op;
  bool mean;  // is subtracted
  size_t skip;
  size_t gamma;
  size_t beta;
  size_t bias;
  size_t mean_out;
  size_t inverse_out;
  size_t sum_out;
  float epsilon;  // where the node says nothing
};
constexpr std::array<Layout, 5> kLayouts = {{
    {"LayerNormalization", true, kNone, 1, 2, kNone, 1, 2, kNone, 1e-5F},
    {"RMSNormalization", false, kNone, 1, kNone, kNone, kNone, kNone, kNone, 1e-5F},
    {"SimplifiedLayerNormalization", false, kNone, 1, kNone, kNone, kNone, 1, kNone, 1e-5F},
    {"SkipLayerNormalization", true, 1, 2, 3, 4, 1, 2, 3, 1e-12F},
    {"SkipSimplifiedLayerNormalization", false, 1, 2, kNone, 3, 1, 2, 3, 1e-12F},
}};

// Whether a row is that of the normalised dimensions, one element for each. Else it is broadcast.
bool IsRow(std::span<const int64_t> row, std::span<const int64_t> normalised) noexcept {
  while (row.size() > normalised.size() && row.front() == 1) row = row.subspan(1);
  return std::ranges::equal(row, normalised);
}

class Norm final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    for (const Layout& layout : kLayouts) {
      if (layout.op == info.op().op) layout_ = &layout;
    }
    axis_ = info.Int("axis", -1);
    epsilon_ = info.Float("epsilon", layout_->epsilon);
    outputs_ = info.outputs();
    const ONNXTensorElementDataType type = info.InputType(0);
    const char* const module = ModuleType(type);
    bytes_ = ElementBytes(type);
    if (layout_->skip == kNone && !KnownRows(info)) {
      TUNABLEOP_RETURN_IF_ERROR(Find("binary", module, module, "binary_mul", &scale_));
      TUNABLEOP_RETURN_IF_ERROR(Find("binary", module, module, "binary_add", &shift_));
    }
    return Find("layer_norm", module, module, layout_->mean ? "layer_norm" : "rms_norm",
                &function_);
  }

  Status Compute(OpContext& context) const override {
    DeviceTensor x;
    DeviceTensor skip;
    DeviceTensor gamma;
    DeviceTensor beta;
    DeviceTensor bias;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, 0, x));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, layout_->skip, skip));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, layout_->gamma, gamma));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, layout_->beta, beta));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, layout_->bias, bias));
    const std::optional<size_t> axis = AxisOf(axis_, x.dims.size());
    if (!axis) return context.NoSuchAxis(axis_, x.dims);
    const std::span<const int64_t> before = x.dims.first(*axis);
    const int64_t columns = ProductOf(x.dims.subspan(*axis));
    const std::span<const int64_t> normalised = x.dims.subspan(*axis);
    const auto fits = [&](const DeviceTensor& row) {
      return !row.present() || IsRow(row.dims, normalised);
    };
    const bool broadcast = layout_->skip == kNone && !(fits(gamma) && fits(beta));
    if (!broadcast && !(fits(gamma) && fits(beta) && fits(bias))) {
      return context.TooManyDims({x.dims, gamma.dims, beta.dims, bias.dims});
    }

    device::LayerNormTensors tensors;
    tensors.x = x.data;
    tensors.x_rows = before;
    if (skip.present()) {
      if (skip.dims.empty() || skip.dims.back() != columns || skip.dims.size() > x.dims.size()) {
        return context.TooManyDims({x.dims, skip.dims});
      }
      tensors.skip = skip.data;
      tensors.skip_rows = skip.dims.first(skip.dims.size() - 1);
    }
    tensors.bias = bias.data;
    if (!broadcast) {
      tensors.gamma = gamma.data;
      tensors.beta = beta.data;
    }

    DeviceTensor out;
    DeviceTensor sum;
    DeviceTensor mean;
    DeviceTensor inverse;
    TUNABLEOP_RETURN_IF_ERROR(Make(context, 0, x.dims, out));
    TUNABLEOP_RETURN_IF_ERROR(Make(context, layout_->sum_out, x.dims, sum));
    device::Dims statistics(x.dims);  // one for each row
    for (size_t i = *axis; i < x.dims.size(); ++i) statistics[static_cast<int>(i)] = 1;
    TUNABLEOP_RETURN_IF_ERROR(Make(context, layout_->mean_out, statistics.view(), mean));
    TUNABLEOP_RETURN_IF_ERROR(Make(context, layout_->inverse_out, statistics.view(), inverse));
    if (x.elements() == 0) return Status::Ok();
    tensors.out = out.data;
    tensors.sum = sum.data;
    tensors.mean = layout_->mean ? static_cast<float*>(mean.data) : nullptr;
    tensors.inverse = static_cast<float*>(inverse.data);
    const auto call = device::PrepareLayerNorm(tensors, columns, epsilon_, bytes_);
    if (!call) return context.TooManyDims({x.dims, skip.dims});
    TUNABLEOP_RETURN_IF_ERROR(context.Launch(function_, *call));
    if (!broadcast) return Status::Ok();
    TUNABLEOP_RETURN_IF_ERROR(Apply(context, scale_, gamma, out));
    return Apply(context, shift_, beta, out);
  }

 private:
  // Whether scales and shifts are known to be rows.
  bool KnownRows(const OpInfo& info) const {
    const std::vector<int64_t> x = info.InputDims(0);
    const std::optional<size_t> axis = AxisOf(axis_, x.size());
    if (!axis) return false;
    const auto normalised = std::span(x).subspan(*axis);
    const auto known = [&](size_t input) {
      return input >= info.inputs() || IsRow(info.InputDims(input), normalised);
    };
    return std::ranges::find(normalised, -1) == normalised.end() && known(layout_->gamma) &&
           known(layout_->beta);
  }

  // `out` times or plus a tensor that is broadcast to it.
  Status Apply(const OpContext& context, const DeviceFunction& function, const DeviceTensor& by,
               const DeviceTensor& out) const {
    if (!by.present()) return Status::Ok();
    const auto call =
        device::PrepareBinary(out.data, out.dims, by.data, by.dims, out.data, bytes_, bytes_);
    if (!call) return context.TooManyDims({out.dims, by.dims});
    return context.Launch(function, *call);
  }

  static Status Read(const OpContext& context, size_t index, DeviceTensor& tensor) {
    if (index == kNone) return Status::Ok();
    Result<DeviceTensor> input = context.Input(index);
    if (!input.ok()) return input.TakeStatus();
    tensor = input.value();
    return Status::Ok();
  }

  Status Make(const OpContext& context, size_t index, std::span<const int64_t> dims,
              DeviceTensor& tensor) const {
    if (index >= outputs_) return Status::Ok();
    Result<DeviceTensor> output = context.Output(index, dims);
    if (!output.ok()) return output.TakeStatus();
    tensor = output.value();
    return Status::Ok();
  }

  const Layout* layout_ = nullptr;
  DeviceFunction function_;
  DeviceFunction scale_;  // where it is broadcast
  DeviceFunction shift_;
  int64_t axis_ = -1;
  float epsilon_ = 0;
  size_t outputs_ = 1;
  size_t bytes_ = 0;
};

}  // namespace

OrtStatus* CreateNorm(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Norm>(state, info, kernel);
}

}  // namespace tunableop
