// Pooling over one to three dimensions: MaxPool, AveragePool.
#include "kernels/pool_launch.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "provider/kernels/element.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

constexpr int kCountsWhatIsThere = 19;  // the opset since which ONNX Runtime does

class Pool final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const bool most = info.op().op == std::string_view("MaxPool");
    window_ = info.Ints("kernel_shape").value_or(std::vector<int64_t>());
    const size_t rank = window_.size();
    strides_ = Each(info, "strides", rank, 1);
    dilations_ = Each(info, "dilations", rank, 1);
    pads_ = Each(info, "pads", 2 * rank, 0);
    auto_pad_ = info.String("auto_pad", "NOTSET");
    ceil_ = info.Int("ceil_mode", 0) != 0;
    counts_padding_ = info.Int("count_include_pad", 0) != 0;
    fills_windows_ = info.version() < kCountsWhatIsThere && !ceil_;
    outputs_ = info.outputs();
    const char* const type = ModuleType(info.InputType(0));
    return Find("pool", type, type, most ? "pool_max" : "pool_average", &function_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    device::PoolShape shape;
    TUNABLEOP_RETURN_IF_ERROR(Resolve(context, x.dims, shape));
    device::Dims dims(x.dims.first(2));
    for (size_t d = 3 - window_.size(); d < 3; ++d) dims.Append(shape.out[d]);
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    DeviceTensor places;
    if (outputs_ > 1) {
      Result<DeviceTensor> asked = context.Output(1, dims.view());
      if (!asked.ok()) return asked.TakeStatus();
      places = asked.value();
    }
    if (output.value().elements() == 0) return Status::Ok();
    const auto call =
        device::PreparePool(x.data, shape, output.value().data, static_cast<int64_t*>(places.data));
    if (!call) return context.TooManyDims({x.dims, window_});
    return context.Launch(function_, *call);
  }

 private:
  static std::vector<int64_t> Each(const OpInfo& info, const char* name, size_t count,
                                   int64_t missing) {
    std::vector<int64_t> given = info.Ints(name).value_or(std::vector<int64_t>());
    return given.empty() ? std::vector<int64_t>(count, missing) : given;
  }

  Status Resolve(const OpContext& context, std::span<const int64_t> x,
                 device::PoolShape& shape) const {
    const size_t rank = window_.size();
    if (rank < 1 || rank > 3 || x.size() != rank + 2 || strides_.size() != rank ||
        dilations_.size() != rank || pads_.size() != 2 * rank ||
        (x[0] != 0 && std::ranges::find(x, 0) != x.end())) {
      return context.Error(StatusCode::kInvalidArgument,
                           DimsText(x) + " has no windows of " + DimsText(window_));
    }
    shape.planes = x[0] * x[1];
    shape.counts_padding = counts_padding_;
    for (size_t i = 0; i < rank; ++i) {
      const size_t d = 3 - rank + i;
      shape.size[d] = x[2 + i];
      shape.window[d] = window_[i];
      shape.stride[d] = strides_[i];
      shape.dilation[d] = dilations_[i];
      if (window_[i] < 1 || strides_[i] < 1 || dilations_[i] < 1) {
        return context.Error(StatusCode::kInvalidArgument, "strides, dilations or windows below 1");
      }
      if (auto_pad_ == "NOTSET") {
        shape.before[d] = pads_[i];
        shape.after[d] = pads_[i + rank];
      } else if (auto_pad_.starts_with("SAME")) {  // which does not know dilations
        const int64_t places = (shape.size[d] + strides_[i] - 1) / strides_[i];
        const int64_t pad = (places - 1) * strides_[i] + window_[i] - shape.size[d];
        shape.before[d] = auto_pad_ == "SAME_LOWER" ? (pad + 1) / 2 : pad / 2;
        shape.after[d] = pad - shape.before[d];
      }
      shape.out[d] = OutSize(shape, d);
      if (fills_windows_) shape.after[d] += std::max<int64_t>(-Room(shape, d), 0);
      if (shape.out[d] < 0) {
        return context.Error(StatusCode::kInvalidArgument,
                             DimsText(x) + " is too small for windows of " + DimsText(window_));
      }
    }
    return Status::Ok();
  }

  // How far the first window can move; below 0: it reaches beyond all that there is.
  static int64_t Room(const device::PoolShape& shape, size_t d) noexcept {
    const int64_t reach = shape.dilation[d] * (shape.window[d] - 1) + 1;
    return shape.size[d] + shape.before[d] + shape.after[d] - reach;
  }

  int64_t OutSize(const device::PoolShape& shape, size_t d) const noexcept {
    const int64_t stride = shape.stride[d];
    // A window that reaches beyond by less than a step is one, as ONNX Runtime divides.
    const int64_t room = Room(shape, d);
    if (!ceil_) return room / stride + 1;
    const int64_t out = room / stride + (room % stride > 0 ? 1 : 0) + 1;
    // A window that begins behind all that there is, is none.
    return (out - 1) * stride >= shape.size[d] + shape.before[d] ? out - 1 : out;
  }

  DeviceFunction function_;
  std::vector<int64_t> window_;
  std::vector<int64_t> strides_;
  std::vector<int64_t> dilations_;
  std::vector<int64_t> pads_;
  std::string auto_pad_;
  bool ceil_ = false;
  bool counts_padding_ = false;
  // Averages with padding are of whole windows, also where one reaches beyond the padding.
  bool fills_windows_ = false;
  size_t outputs_ = 1;
};

}  // namespace

OrtStatus* CreatePool(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Pool>(state, info, kernel);
}

}  // namespace tunableop
