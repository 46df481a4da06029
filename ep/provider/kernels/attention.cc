// ONNX's own Attention, of opset 23.
#include <array>
#include <cmath>
#include <vector>

#include "provider/kernels/attention_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Attention final : public AttentionKernel {
 public:
  Status Init(const OpInfo& info) override {
    q_heads_ = info.Int("q_num_heads", 0);
    kv_heads_ = info.Int("kv_num_heads", 0);
    scale_ = info.Float("scale", 0.0F);
    causal_ = info.Int("is_causal", 0) != 0;
    const std::vector<int64_t> q = info.InputDims(0);
    int64_t size = q.size() >= 3 ? q.back() : 0;
    if (q.size() == 3 && q_heads_ > 0) size /= q_heads_;
    return FindKernels(info, size);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 6> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const bool joined = inputs[0].dims.size() == 3;
    const auto read = [&](size_t i, int64_t heads) {
      return joined ? JoinedHeads(inputs[i], heads) : SeparateHeads(inputs[i]);
    };
    const std::optional<Vectors> q = read(0, q_heads_);
    const std::optional<Vectors> k = read(1, kv_heads_);
    const std::optional<Vectors> v = read(2, kv_heads_);
    if (!q || !k || !v || !Fit(*q, *k, *v)) {
      return context.TooManyDims({inputs[0].dims, inputs[1].dims, inputs[2].dims});
    }
    Scratch kept_keys;
    Scratch kept_values;
    Vectors keys;
    Vectors values;
    TUNABLEOP_RETURN_IF_ERROR(Append(context, inputs[4], *k, 1, kept_keys, keys));
    TUNABLEOP_RETURN_IF_ERROR(Append(context, inputs[5], *v, 2, kept_values, values));
    if (keys.tokens != values.tokens) return context.TooManyDims({inputs[4].dims, inputs[5].dims});
    device::Dims dims(inputs[0].dims);
    dims[dims.rank() - 1] = joined ? q->heads * v->size : v->size;
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();

    device::AttentionShape shape;
    shape.batches = q->batches;
    shape.heads = q->heads;
    shape.kv_heads = k->heads;
    shape.queries = q->tokens;
    shape.keys = keys.tokens;
    shape.size = q->size;
    shape.value_size = v->size;
    shape.scale = scale_ != 0.0F ? scale_ : 1.0F / std::sqrt(static_cast<float>(q->size));
    shape.causal = causal_;
    shape.zeros_for_nothing = true;
    shape.past = keys.tokens - k->tokens;
    device::AttentionTensors tensors;
    tensors.q = TensorOf(*q);
    tensors.k = TensorOf(keys);
    tensors.v = TensorOf(values);
    tensors.out = output.value().data;
    tensors.out_at = device::StridesOf(q->tokens, q->heads, v->size, !joined);
    if (inputs[3].present() && !MaskOf(inputs[3], shape, tensors)) {
      return context.TooManyDims({inputs[0].dims, inputs[3].dims});
    }
    return Attend(context, tensors, shape);
  }

 private:
  int64_t q_heads_ = 0;
  int64_t kv_heads_ = 0;
  float scale_ = 0.0F;
  bool causal_ = false;
};

}  // namespace

OrtStatus* CreateAttention(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Attention>(state, info, kernel);
}

}  // namespace tunableop
