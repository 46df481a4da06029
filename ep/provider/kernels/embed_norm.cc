// EmbedLayerNormalization of com.microsoft: what a model of tokens begins with.
#include <array>

#include "kernels/binary_launch.h"
#include "kernels/gather_launch.h"
#include "kernels/layer_norm_launch.h"
#include "kernels/reduce_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"
#include "provider/kernels/scratch.h"

namespace tunableop {
namespace {

enum Inputs : uint8_t {
  kIds,
  kSegments,
  kWords,
  kPlaces,
  kSegmentTable,
  kGamma,
  kBeta,
  kMask,
  kPositions,
  kAll
};

class EmbedNorm final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    epsilon_ = info.Float("epsilon", 1e-12F);
    outputs_ = info.outputs();
    const ONNXTensorElementDataType kind = info.InputType(kWords);
    bytes_ = ElementBytes(kind);
    const char* const type = ModuleType(kind);
    TUNABLEOP_RETURN_IF_ERROR(Find("gather", WidthType(kind), "i32", "gather", &gather_));
    TUNABLEOP_RETURN_IF_ERROR(Find("binary", type, type, "binary_add", &add_));
    TUNABLEOP_RETURN_IF_ERROR(Find("reduce", "i32", "i32", "reduce_sum", &count_));
    return Find("layer_norm", type, type, "layer_norm", &norm_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, kAll> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const DeviceTensor& ids = inputs[kIds];
    const DeviceTensor& words = inputs[kWords];
    const DeviceTensor& places = inputs[kPlaces];
    const int64_t width = words.dims.size() == 2 ? words.dims[1] : 0;
    if (ids.dims.size() != 2 || places.dims.size() != 2 || places.dims[1] != width ||
        places.dims[0] < ids.dims[1] || inputs[kGamma].elements() != width ||
        inputs[kBeta].elements() != width) {
      return context.TooManyDims({ids.dims, words.dims, places.dims});
    }
    const std::array<int64_t, 3> dims{ids.dims[0], ids.dims[1], width};
    const std::array<int64_t, 1> batches{ids.dims[0]};
    Result<DeviceTensor> output = context.Output(0, dims);
    if (!output.ok()) return output.TakeStatus();
    TUNABLEOP_RETURN_IF_ERROR(CountMask(context, inputs[kMask], batches));
    DeviceTensor sum;
    if (outputs_ > 2) {
      Result<DeviceTensor> asked = context.Output(2, dims);
      if (!asked.ok()) return asked.TakeStatus();
      sum = asked.value();
    }
    if (output.value().elements() == 0) return Status::Ok();

    std::array<Scratch, 3> looked_up;
    TUNABLEOP_RETURN_IF_ERROR(LookUp(context, words, ids, looked_up[0]));
    if (inputs[kSegments].present() && inputs[kSegmentTable].present()) {
      TUNABLEOP_RETURN_IF_ERROR(
          LookUp(context, inputs[kSegmentTable], inputs[kSegments], looked_up[1]));
      const auto call = device::PrepareBinary(looked_up[0].data(), dims, looked_up[1].data(), dims,
                                              looked_up[0].data(), bytes_, bytes_);
      if (!call) return context.TooManyDims({dims});
      TUNABLEOP_RETURN_IF_ERROR(context.Launch(add_, *call));
    }
    device::LayerNormTensors tensors;
    tensors.x = looked_up[0].data();
    tensors.x_rows = std::span(dims).first(2);
    // In order, they are the table's first rows.
    tensors.skip = places.data;
    std::array<int64_t, 2> rows{1, dims[1]};
    if (const DeviceTensor& positions = inputs[kPositions]; positions.present()) {
      if (positions.dims.size() != 2 || positions.dims[1] != dims[1]) {
        return context.TooManyDims({ids.dims, positions.dims});
      }
      TUNABLEOP_RETURN_IF_ERROR(LookUp(context, places, positions, looked_up[2]));
      tensors.skip = looked_up[2].data();
      rows[0] = positions.dims[0];
    }
    tensors.skip_rows = rows;
    tensors.gamma = inputs[kGamma].data;
    tensors.beta = inputs[kBeta].data;
    tensors.out = output.value().data;
    tensors.sum = sum.data;
    const auto call = device::PrepareLayerNorm(tensors, width, epsilon_, bytes_);
    if (!call) return context.TooManyDims({dims, rows});
    return context.Launch(norm_, *call);
  }

 private:
  Status LookUp(const OpContext& context, const DeviceTensor& table, const DeviceTensor& ids,
                Scratch& rows) const {
    const int64_t elements = ids.elements() * table.dims[1];
    rows = Scratch(*gpu().memory(), static_cast<size_t>(elements) * bytes_, context.stream());
    if (rows.data() == nullptr) return NoMemory(gpu());
    return context.Launch(gather_, device::PrepareGather(table.data, table.dims, 0, ids.data,
                                                         ids.elements(), rows.data(), bytes_));
  }

  // How many tokens each batch has.
  Status CountMask(const OpContext& context, const DeviceTensor& mask,
                   const std::array<int64_t, 1>& batches) const {
    if (outputs_ < 2) return Status::Ok();
    Result<DeviceTensor> output = context.Output(1, batches);
    if (!output.ok()) return output.TakeStatus();
    const DeviceTensor& counts = output.value();
    if (!counts.present() || counts.elements() == 0) return Status::Ok();
    if (!mask.present() || mask.elements() == 0) {
      return context.device().Fill(counts.data, 0,
                                   static_cast<size_t>(counts.elements()) * sizeof(int32_t),
                                   context.stream());
    }
    if (mask.dims.size() != 2 || mask.dims[0] != batches[0]) {
      return context.TooManyDims({mask.dims});
    }
    const std::array<bool, 2> reduced{false, true};
    const auto call =
        device::PrepareReduce(mask.data, mask.dims, reduced, counts.data, sizeof(int32_t));
    if (!call) return context.TooManyDims({mask.dims});
    return context.Launch(count_, *call);
  }

  DeviceFunction gather_;
  DeviceFunction add_;
  DeviceFunction count_;
  DeviceFunction norm_;
  float epsilon_ = 0;
  size_t outputs_ = 1;
  size_t bytes_ = 0;
};

}  // namespace

OrtStatus* CreateEmbedNorm(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<EmbedNorm>(state, info, kernel);
}

}  // namespace tunableop
