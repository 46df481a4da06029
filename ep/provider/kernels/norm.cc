// Operators that normalise rows: with a mean (LayerNormalization) and without (Simplified...,
// RMS...), of a sum (Skip...) or of one input.
#include <array>
#include <string_view>

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
    bytes_ = ElementBytes(type);
    return Find("layer_norm", ModuleType(type), ModuleType(type),
                layout_->mean ? "layer_norm" : "rms_norm", &function_);
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
    for (const DeviceTensor* row : {&gamma, &beta, &bias}) {
      if (row->present() && row->elements() != columns) {
        return context.TooManyDims({x.dims, row->dims});
      }
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
    tensors.gamma = gamma.data;
    tensors.beta = beta.data;

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
    return context.Launch(function_, *call);
  }

 private:
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
