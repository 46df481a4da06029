// RotaryEmbedding: ONNX's own of opset 23, and that of com.microsoft.
#include "kernels/rotary_launch.h"

#include <array>
#include <string_view>

#include "provider/kernels/element.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

// Where an operator has what.
struct Places {
  size_t positions;
  size_t cosines;
  size_t sines;
};
constexpr Places kOnnx{3, 1, 2};
constexpr Places kContrib{1, 2, 3};

class Rotary final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    places_ = std::string_view(info.op().domain).empty() ? kOnnx : kContrib;
    heads_ = info.Int("num_heads", 0);
    rotated_ = info.Int("rotary_embedding_dim", 0);
    interleaved_ = info.Int("interleaved", 0) != 0;
    const ONNXTensorElementDataType type = info.InputType(0);
    return Find("rotary", ModuleType(type), ModuleType(type), "rotary", &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 4> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const DeviceTensor& x = inputs[0];
    const DeviceTensor& positions = inputs[places_.positions];
    const DeviceTensor& cosines = inputs[places_.cosines];
    const DeviceTensor& sines = inputs[places_.sines];
    device::RotaryShape shape;
    const bool fits =
        ShapeOf(x.dims, cosines.dims, shape) &&
        std::equal(cosines.dims.begin(), cosines.dims.end(), sines.dims.begin(), sines.dims.end());
    if (!fits) return context.TooManyDims({x.dims, cosines.dims, sines.dims});
    device::RotaryTensors tensors;
    const int64_t tokens = shape.batch * shape.sequence;
    if (positions.present()) {
      tensors.first = positions.elements() == 1;
      if (!tensors.first && positions.elements() != tokens) {
        return context.TooManyDims({x.dims, positions.dims});
      }
      tensors.positions = static_cast<const int64_t*>(positions.data);
      tensors.cache_rows = cosines.dims[0];
    } else {
      tensors.each = true;
      if (cosines.dims.size() != 3 || cosines.dims[0] * cosines.dims[1] != tokens) {
        return context.TooManyDims({x.dims, cosines.dims});
      }
    }
    Result<DeviceTensor> output = context.Output(0, x.dims);
    if (!output.ok()) return output.TakeStatus();
    if (x.elements() == 0) return Status::Ok();
    tensors.x = x.data;
    tensors.out = output.value().data;
    tensors.cosines = cosines.data;
    tensors.sines = sines.data;
    const auto call = device::PrepareRotary(tensors, shape);
    if (!call) return context.TooManyDims({x.dims});
    return context.Launch(function_, *call);
  }

 private:
  bool ShapeOf(std::span<const int64_t> x, std::span<const int64_t> cache,
               device::RotaryShape& shape) const noexcept {
    if (cache.size() < 2 || cache.size() > 3) return false;
    const int64_t half = cache.back();
    if (x.size() == 4) {
      shape.batch = x[0];
      shape.heads = x[1];
      shape.sequence = x[2];
      shape.head = x[3];
      shape.heads_outside = true;
    } else if (x.size() == 3) {
      shape.batch = x[0];
      shape.sequence = x[1];
      // Without a number of heads all of a head turns: its size is that of the caches.
      shape.head = heads_ > 0 ? x[2] / heads_ : 2 * half;
      if (shape.head == 0 || x[2] % shape.head != 0) return false;
      shape.heads = x[2] / shape.head;
    } else {
      return false;
    }
    shape.rotated = rotated_ > 0 ? rotated_ : shape.head;
    shape.interleaved = interleaved_;
    return shape.rotated == 2 * half;
  }

  DeviceFunction function_;
  Places places_ = kOnnx;
  int64_t heads_ = 0;
  int64_t rotated_ = 0;
  bool interleaved_ = false;
};

}  // namespace

OrtStatus* CreateRotary(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Rotary>(state, info, kernel);
}

}  // namespace tunableop
