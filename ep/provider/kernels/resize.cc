// Resize: images of other sizes, by the nearest element or by those around.
#include "kernels/resize_launch.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

device::ResizePlace PlaceNamed(std::string_view name) noexcept {
  if (name == "align_corners") return device::ResizePlace::kAlignCorners;
  if (name == "asymmetric") return device::ResizePlace::kAsymmetric;
  if (name == "pytorch_half_pixel") return device::ResizePlace::kHalfPixelOfMore;
  if (name == "half_pixel_symmetric") return device::ResizePlace::kHalfPixelSymmetric;
  return device::ResizePlace::kHalfPixel;
}

device::ResizeRound RoundNamed(std::string_view name) noexcept {
  if (name == "round_prefer_ceil") return device::ResizeRound::kPreferCeil;
  if (name == "floor") return device::ResizeRound::kFloor;
  if (name == "ceil") return device::ResizeRound::kCeil;
  return device::ResizeRound::kPreferFloor;
}

class Resize final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const bool linear = info.String("mode", "nearest") == "linear";
    place_ = PlaceNamed(info.String("coordinate_transformation_mode", "half_pixel"));
    round_ = RoundNamed(info.String("nearest_mode", "round_prefer_floor"));
    axes_ = info.Ints("axes");
    const char* const type = ModuleType(info.InputType(0));
    return Find("resize", type, type, linear ? "resize_linear" : "resize_nearest", &function_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    device::Dims dims(x.dims);
    std::array<float, device::Dims::kMost> scales;
    scales.fill(1.0F);
    TUNABLEOP_RETURN_IF_ERROR(Measure(context, x.dims, dims, scales));
    // What keeps its size is the same, whatever the scales: as in ONNX Runtime.
    if (std::ranges::equal(x.dims, dims.view())) scales.fill(1.0F);
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    if (x.elements() == 0) return context.TooManyDims({x.dims, dims.view()});
    device::ResizeShape shape;
    shape.sizes = x.dims;
    shape.outs = output.value().dims;
    shape.scales = {scales.data(), x.dims.size()};
    shape.place = place_;
    shape.round = round_;
    const auto call = device::PrepareResize(x.data, shape, output.value().data);
    if (!call) return context.TooManyDims({x.dims, dims.view()});
    return context.Launch(function_, *call);
  }

 private:
  // Sizes or scales, of all dimensions or of `axes_`; the one of which there are any.
  Status Measure(const OpContext& context, std::span<const int64_t> x, device::Dims& dims,
                 std::array<float, device::Dims::kMost>& scales) const {
    Result<DeviceTensor> given = context.Input(2);
    if (!given.ok()) return given.TakeStatus();
    Result<std::optional<std::vector<int64_t>>> sizes = context.HostInts(3);
    if (!sizes.ok()) return sizes.TakeStatus();
    const bool sized = sizes.value() && !sizes.value()->empty();
    const DeviceTensor& scale = given.value();
    const size_t count = axes_ ? axes_->size() : x.size();
    const auto there = sized             ? sizes.value()->size()
                       : scale.present() ? static_cast<size_t>(scale.elements())
                                         : 0;
    if (there != count) {
      return context.Error(StatusCode::kInvalidArgument,
                           "there are " + std::to_string(there) + " sizes or scales for " +
                               std::to_string(count) + " dimensions of " + DimsText(x));
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t asked = axes_ ? (*axes_)[i] : static_cast<int64_t>(i);
      const std::optional<size_t> axis = AxisOf(asked, x.size());
      if (!axis) return context.NoSuchAxis(asked, x);
      const auto size = static_cast<float>(x[*axis]);
      int64_t& out = dims[static_cast<int>(*axis)];
      if (sized) {
        out = (*sizes.value())[i];
        scales[*axis] = x[*axis] == out ? 1.0F : static_cast<float>(out) / size;
      } else {
        scales[*axis] = static_cast<const float*>(scale.data)[i];
        out = static_cast<int64_t>(scales[*axis] * size);
      }
      if (!(scales[*axis] > 0) && x[*axis] > 0) {
        return context.Error(StatusCode::kInvalidArgument, "sizes and scales must be above 0");
      }
    }
    return Status::Ok();
  }

  DeviceFunction function_;
  std::optional<std::vector<int64_t>> axes_;
  device::ResizePlace place_ = device::ResizePlace::kHalfPixel;
  device::ResizeRound round_ = device::ResizeRound::kPreferFloor;
};

}  // namespace

OrtStatus* CreateResize(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Resize>(state, info, kernel);
}

}  // namespace tunableop
