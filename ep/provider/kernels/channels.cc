// Operators that normalise images by channels: with statistics of a training (BatchNormalization),
// each channel by its own (InstanceNormalization), groups of them (GroupNormalization).
#include "kernels/channel_launch.h"

#include <array>

#include "kernels/layer_norm_launch.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

constexpr float kEpsilon = 1e-5F;  // where the node says nothing

// [images, channels, inner]; an image of one dimension has one channel.
struct Channels {
  int64_t images = 0;
  int64_t channels = 0;
  int64_t inner = 0;
};

class ChannelKernel : public OpKernel {
 protected:
  Status FindChannels(const OpInfo& info) {
    return Find("channel", ModuleType(info.InputType(0)), ModuleType(info.InputType(1)),
                "channel_apply", &apply_);
  }

  // x and what its channels have, in input 1 and behind it. Error: they do not fit.
  template <size_t kCount>
  static Status Read(const OpContext& context, std::array<DeviceTensor, kCount>& inputs,
                     Channels& of) {
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const std::span<const int64_t> x = inputs[0].dims;
    if (x.size() < 2) return context.TooManyDims({x, inputs[1].dims});
    of = {x[0], x[1], ProductOf(x.subspan(2))};
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i].elements() != of.channels) return context.TooManyDims({x, inputs[i].dims});
    }
    return Status::Ok();
  }

  Status Apply(const OpContext& context, const void* x, const device::ChannelNumbers& numbers,
               const Channels& of, const DeviceTensor& out) const {
    const auto call =
        device::PrepareChannels(x, numbers, of.images, of.channels, of.inner, out.data);
    if (!call) return context.TooManyDims({out.dims});
    return context.Launch(apply_, *call);
  }

 private:
  DeviceFunction apply_;
};

class BatchNorm final : public ChannelKernel {
 public:
  Status Init(const OpInfo& info) override {
    epsilon_ = info.Float("epsilon", kEpsilon);
    return FindChannels(info);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 5> inputs;
    Channels of;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, inputs, of));
    Result<DeviceTensor> output = context.Output(0, inputs[0].dims);
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    return Apply(context, inputs[0].data,
                 {.scale = inputs[1].data,
                  .shift = inputs[2].data,
                  .mean = inputs[3].data,
                  .variance = inputs[4].data,
                  .epsilon = epsilon_},
                 of, output.value());
  }

 private:
  float epsilon_ = 0;
};

// Each channel by itself, or so many groups of them.
class GroupNorm final : public ChannelKernel {
 public:
  Status Init(const OpInfo& info) override {
    epsilon_ = info.Float("epsilon", kEpsilon);
    groups_ = info.Int("num_groups", 0);
    const ONNXTensorElementDataType type = info.InputType(0);
    bytes_ = ElementBytes(type);
    TUNABLEOP_RETURN_IF_ERROR(FindChannels(info));
    return Find("layer_norm", ModuleType(type), ModuleType(type), "layer_norm", &norm_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 3> inputs;
    Channels of;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, inputs, of));
    const int64_t groups = groups_ > 0 ? groups_ : of.channels;
    if (groups > 0 && of.channels % groups != 0) {
      return context.Error(
          StatusCode::kInvalidArgument,
          std::to_string(of.channels) + " channels are no " + std::to_string(groups) + " groups");
    }
    Result<DeviceTensor> output = context.Output(0, inputs[0].dims);
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    const std::array<int64_t, 2> rows{of.images, groups};
    device::LayerNormTensors tensors;
    tensors.x = inputs[0].data;
    tensors.x_rows = rows;
    tensors.out = output.value().data;
    const auto call =
        device::PrepareLayerNorm(tensors, of.channels / groups * of.inner, epsilon_, bytes_);
    if (!call) return context.TooManyDims({inputs[0].dims});
    TUNABLEOP_RETURN_IF_ERROR(context.Launch(norm_, *call));
    return Apply(context, output.value().data, {.scale = inputs[1].data, .shift = inputs[2].data},
                 of, output.value());
  }

 private:
  DeviceFunction norm_;
  float epsilon_ = 0;
  int64_t groups_ = 0;  // 0: as many as there are channels
  size_t bytes_ = 0;
};

}  // namespace

OrtStatus* CreateBatchNorm(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<BatchNorm>(state, info, kernel);
}
OrtStatus* CreateGroupNorm(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<GroupNorm>(state, info, kernel);
}

}  // namespace tunableop
