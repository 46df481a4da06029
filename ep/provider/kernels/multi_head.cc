// MultiHeadAttention of com.microsoft.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/binary_launch.h"
#include "provider/kernels/attention_kernel.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

enum Inputs : uint8_t { kQuery, kKey, kValue, kBias, kPadding, kAdded, kPastKey, kPastValue, kAll };

class MultiHead final : public AttentionKernel {
 public:
  Status Init(const OpInfo& info) override {
    heads_ = info.Int("num_heads", 0);
    scale_ = info.Float("scale", 0.0F);
    causal_ = info.Int("unidirectional", 0) != 0;
    const std::vector<int64_t> q = info.InputDims(kQuery);
    const int64_t whole = q.empty() ? 0 : q.back();
    if (info.InputType(kBias) != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) {
      const char* const type = ModuleType(info.InputType(kQuery));
      TUNABLEOP_RETURN_IF_ERROR(Find("binary", type, type, "binary_add", &add_));
    }
    TUNABLEOP_RETURN_IF_ERROR(FindMasks(info, kPadding));
    return FindKernels(info, q.size() == 5 || heads_ == 0 ? whole : whole / heads_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, kAll> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    std::array<Scratch, 3> sums;
    std::array<Vectors, 3> qkv;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, inputs, sums, qkv));
    const Vectors& q = qkv[0];
    Scratch kept_keys;
    Scratch kept_values;
    Vectors keys;
    Vectors values;
    TUNABLEOP_RETURN_IF_ERROR(Append(context, inputs[kPastKey], qkv[1], 1, kept_keys, keys));
    TUNABLEOP_RETURN_IF_ERROR(Append(context, inputs[kPastValue], qkv[2], 2, kept_values, values));
    const std::array<int64_t, 3> dims{q.batches, q.tokens, q.heads * values.size};
    Result<DeviceTensor> output = context.Output(0, dims);
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();

    device::AttentionShape shape;
    shape.batches = q.batches;
    shape.heads = shape.kv_heads = q.heads;
    shape.queries = q.tokens;
    shape.keys = keys.tokens;
    shape.size = q.size;
    shape.value_size = values.size;
    shape.scale = scale_ != 0.0F ? scale_ : 1.0F / std::sqrt(static_cast<float>(q.size));
    shape.causal = causal_;
    shape.past = keys.tokens - qkv[1].tokens;
    device::AttentionTensors tensors;
    tensors.q = TensorOf(q);
    tensors.k = TensorOf(keys);
    tensors.v = TensorOf(values);
    tensors.out = output.value().data;
    tensors.out_at = device::StridesOf(q.tokens, q.heads, values.size, /*heads_outside=*/false);
    Scratch made;
    TUNABLEOP_RETURN_IF_ERROR(
        ReadMasks(context, inputs[kPadding], inputs[kAdded], shape, made, tensors));
    return AttendLastToAll(context, tensors, shape);
  }

 private:
  // Queries, keys and values in any of the forms that the operator knows, with their biases.
  Status Read(const OpContext& context, const std::array<DeviceTensor, kAll>& inputs,
              std::array<Scratch, 3>& sums, std::array<Vectors, 3>& qkv) const {
    const DeviceTensor& query = inputs[kQuery];
    const DeviceTensor& key = inputs[kKey];
    std::array<std::optional<Vectors>, 3> read;
    if (query.dims.size() == 5) {
      for (size_t i = 0; i < 3; ++i) read[i] = Packed(query, i, 3);
    } else {
      read[0] = JoinedHeads(query, heads_);
      for (size_t i = 1; i < 3; ++i) {
        const DeviceTensor& own = inputs[i];
        read[i] = key.dims.size() == 5   ? Packed(key, i - 1, 2)
                  : own.dims.size() == 4 ? SeparateHeads(own)
                                         : JoinedHeads(own, heads_);
      }
    }
    if (!read[0] || !read[1] || !read[2] || !Fit(*read[0], *read[1], *read[2]) ||
        read[0]->heads != read[1]->heads) {
      return context.TooManyDims({query.dims, key.dims, inputs[kValue].dims});
    }
    for (size_t i = 0; i < 3; ++i) qkv[i] = *read[i];
    if (!inputs[kBias].present()) return Status::Ok();
    int64_t before = 0;  // of the bias
    for (size_t i = 0; i < 3; ++i) {
      const int64_t width = heads_ * qkv[i].size;
      if (inputs[i].dims.size() != 3 || before + width > inputs[kBias].elements()) {
        return context.Error(StatusCode::kNotSupported,
                             "a bias of packed heads, or of other sizes, has no kernel");
      }
      TUNABLEOP_RETURN_IF_ERROR(
          Take(context, static_cast<size_t>(inputs[i].elements()) * bytes(), sums[i]));
      const auto* const bias = static_cast<const std::byte*>(inputs[kBias].data) +
                               static_cast<int64_t>(bytes()) * before;
      before += width;
      const std::array<int64_t, 1> row{width};
      if (inputs[i].elements() > 0) {
        const auto call = device::PrepareBinary(inputs[i].data, inputs[i].dims, bias, row,
                                                sums[i].data(), bytes(), bytes());
        if (!call) return context.TooManyDims({inputs[i].dims, row});
        TUNABLEOP_RETURN_IF_ERROR(context.Launch(add_, *call));
      }
      qkv[i].data = sums[i].data();
    }
    return Status::Ok();
  }

  // The `part`-th of [batch, token, heads, parts, size].
  std::optional<Vectors> Packed(const DeviceTensor& tensor, size_t part, int64_t parts) const {
    if (tensor.dims[3] != parts || tensor.dims[2] != heads_) return std::nullopt;
    Vectors made;
    made.batches = tensor.dims[0];
    made.tokens = tensor.dims[1];
    made.heads = heads_;
    made.size = tensor.dims[4];
    made.data = static_cast<const std::byte*>(tensor.data) +
                static_cast<int64_t>(part * bytes()) * made.size;
    made.at.head = parts * made.size;
    made.at.token = heads_ * made.at.head;
    made.at.batch = made.tokens * made.at.token;
    return made;
  }

  DeviceFunction add_;
  int64_t heads_ = 0;
  float scale_ = 0.0F;
  bool causal_ = false;
};

}  // namespace

OrtStatus* CreateMultiHead(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<MultiHead>(state, info, kernel);
}

}  // namespace tunableop
