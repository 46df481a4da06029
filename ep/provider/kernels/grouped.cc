// GroupQueryAttention of com.microsoft: causal attention over what is kept of a batch's tokens, of
// which each batch may have another number.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/rotary_launch.h"
#include "provider/kernels/attention_kernel.h"
#include "provider/kernels/element.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

enum Inputs : uint8_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,  // of each batch with the fresh tokens, less one
  kTotal,    // the longest of them
  kCosines,
  kSines,
  kPositions,
  kAdded,
  kSinks,
  kAll
};

class Grouped final : public AttentionKernel {
 public:
  Status Init(const OpInfo& info) override {
    heads_ = info.Int("num_heads", 0);
    kv_heads_ = info.Int("kv_num_heads", 0);
    scale_ = info.Float("scale", 0.0F);
    rotates_ = info.Int("do_rotary", 0) != 0;
    interleaved_ = info.Int("rotary_interleaved", 0) != 0;
    window_ = info.Int("local_window_size", -1);
    cap_ = info.Float("softcap", 0.0F);
    smooth_ = info.Int("smooth_softmax", 0) > 0;
    if (heads_ < 1 || kv_heads_ < 1) {
      return {StatusCode::kInvalidArgument,
              "GroupQueryAttention: num_heads or kv_num_heads below 1"};
    }
    const ONNXTensorElementDataType type = info.InputType(kQuery);
    if (rotates_) {
      TUNABLEOP_RETURN_IF_ERROR(
          Find("rotary", ModuleType(type), ModuleType(type), "rotary", &rotary_));
    }
    const std::vector<int64_t> q = info.InputDims(kQuery);
    const bool packed = info.InputType(kKey) == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    const int64_t in_row = packed ? heads_ + 2 * kv_heads_ : heads_;
    return FindKernels(info, q.empty() ? 0 : q.back() / in_row);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, kAll> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    Call call;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, inputs, call));
    const std::array<int64_t, 3> dims{call.q.batches, call.q.tokens, heads_ * call.q.size};
    Result<DeviceTensor> output = context.Output(0, dims);
    if (!output.ok()) return output.TakeStatus();
    if (rotates_) TUNABLEOP_RETURN_IF_ERROR(Rotate(context, inputs, call));
    Scratch kept_keys;
    Scratch kept_values;
    Vectors keys;
    Vectors values;
    TUNABLEOP_RETURN_IF_ERROR(Keep(context, inputs[kPastKey], call, call.k, 1, kept_keys, keys));
    TUNABLEOP_RETURN_IF_ERROR(
        Keep(context, inputs[kPastValue], call, call.v, 2, kept_values, values));
    if (output.value().elements() == 0) return Status::Ok();

    device::AttentionShape shape;
    shape.batches = call.q.batches;
    shape.heads = heads_;
    shape.kv_heads = kv_heads_;
    shape.queries = call.q.tokens;
    shape.keys = std::min(keys.tokens, call.total);
    shape.size = call.q.size;
    shape.scale = scale_ != 0.0F ? scale_ : 1.0F / std::sqrt(static_cast<float>(call.q.size));
    shape.cap = cap_;
    shape.causal = true;
    shape.past_by_end = !call.prompt;
    device::AttentionTensors tensors;
    tensors.q = TensorOf(call.q);
    tensors.k = TensorOf(keys);
    tensors.v = TensorOf(values);
    tensors.lengths = call.lengths;
    tensors.length_more = 1;
    tensors.has_sinks = smooth_ || inputs[kSinks].present();
    tensors.sinks = inputs[kSinks].data;
    tensors.out = output.value().data;
    tensors.out_at = device::StridesOf(call.q.tokens, heads_, call.q.size, false);
    if (inputs[kAdded].present() && !MaskOf(inputs[kAdded], shape, tensors)) {
      return context.TooManyDims({inputs[kQuery].dims, inputs[kAdded].dims});
    }
    Scratch seen;
    if (window_ > 0 && window_ < shape.keys) {
      const device::KvWindow window{call.lengths, 1,       shape.batches, shape.queries,
                                    shape.keys,   window_, call.prompt};
      TUNABLEOP_RETURN_IF_ERROR(Limit(context, window, seen, tensors));
    }
    return Attend(context, tensors, shape);
  }

 private:
  struct Call {
    Vectors q;
    Vectors k;
    Vectors v;
    const int32_t* lengths = nullptr;
    int64_t total = 0;
    int64_t half = 0;     // pairs of a head that turn
    bool prompt = false;  // nothing is kept yet
    Scratch positions;
    Scratch turned_q;
    Scratch turned_k;
  };

  Status Read(const OpContext& context, const std::array<DeviceTensor, kAll>& inputs,
              Call& call) const {
    const DeviceTensor& query = inputs[kQuery];
    std::optional<Vectors> q;
    std::optional<Vectors> k;
    std::optional<Vectors> v;
    if (inputs[kKey].present()) {
      q = JoinedHeads(query, heads_);
      k = JoinedHeads(inputs[kKey], kv_heads_);
      v = JoinedHeads(inputs[kValue], kv_heads_);
    } else {  // side by side in each token
      q = JoinedHeads(query, heads_ + 2 * kv_heads_);
    }
    if (q && !inputs[kKey].present()) {
      k = v = q;
      const auto step = static_cast<int64_t>(bytes()) * q->size;
      k->data = static_cast<const std::byte*>(q->data) + heads_ * step;
      v->data = static_cast<const std::byte*>(q->data) + (heads_ + kv_heads_) * step;
      q->heads = heads_;
      k->heads = v->heads = kv_heads_;
    }
    const DeviceTensor& lengths = inputs[kLengths];
    const DeviceTensor& total = inputs[kTotal];
    if (!q || !k || !v || !Fit(*q, *k, *v) || v->size != k->size || q->tokens != k->tokens ||
        lengths.elements() != q->batches || total.elements() != 1) {
      return context.TooManyDims(
          {query.dims, inputs[kKey].dims, inputs[kValue].dims, lengths.dims});
    }
    call.q = *q;
    call.k = *k;
    call.v = *v;
    call.lengths = static_cast<const int32_t*>(lengths.data);
    call.total = HostInteger(total);
    call.prompt = call.total == q->tokens;
    if (call.total < q->tokens) {
      return context.Error(StatusCode::kInvalidArgument,
                           "total_sequence_length is less than the tokens that are given");
    }
    return Status::Ok();
  }

  // Queries and keys, into memory of their own.
  Status Rotate(const OpContext& context, const std::array<DeviceTensor, kAll>& inputs,
                Call& call) const {
    const DeviceTensor& cosines = inputs[kCosines];
    const DeviceTensor& sines = inputs[kSines];
    const int64_t tokens = call.q.batches * call.q.tokens;
    if (cosines.dims.size() != 2 || sines.elements() != cosines.elements() ||
        2 * cosines.dims[1] > call.q.size) {
      return context.TooManyDims({cosines.dims, sines.dims});
    }
    if (tokens == 0) return Status::Ok();
    call.half = cosines.dims[1];
    device::RotaryTensors tensors;
    tensors.cosines = cosines.data;
    tensors.sines = sines.data;
    tensors.cache_rows = cosines.dims[0];
    if (inputs[kPositions].present()) {
      if (inputs[kPositions].elements() != tokens) {
        return context.TooManyDims({inputs[kPositions].dims});
      }
      tensors.positions = static_cast<const int64_t*>(inputs[kPositions].data);
    } else {
      TUNABLEOP_RETURN_IF_ERROR(
          Take(context, static_cast<size_t>(tokens) * sizeof(int64_t), call.positions));
      auto* const places = static_cast<int64_t*>(call.positions.data());
      TUNABLEOP_RETURN_IF_ERROR(
          Positions(context, device::PrepareKvPositions(call.lengths, 1, call.q.batches,
                                                        call.q.tokens, call.prompt, places)));
      tensors.positions = places;
    }
    TUNABLEOP_RETURN_IF_ERROR(Turn(context, tensors, call.half, call.q, call.turned_q));
    return Turn(context, tensors, call.half, call.k, call.turned_k);
  }

  Status Turn(const OpContext& context, device::RotaryTensors tensors, int64_t half, Vectors& of,
              Scratch& memory) const {
    const int64_t elements = of.batches * of.tokens * of.heads * of.size;
    TUNABLEOP_RETURN_IF_ERROR(Take(context, static_cast<size_t>(elements) * bytes(), memory));
    tensors.x = of.data;
    tensors.out = memory.data();
    device::RotaryShape shape;
    shape.batch = of.batches;
    shape.sequence = of.tokens;
    shape.heads = of.heads;
    shape.head = of.size;
    shape.rotated = 2 * half;
    shape.interleaved = interleaved_;
    shape.x_token = of.at.token;
    const auto call = device::PrepareRotary(tensors, shape);
    if (!call) return context.Error(StatusCode::kNotSupported, "2^30 tokens have no kernel");
    TUNABLEOP_RETURN_IF_ERROR(context.Launch(rotary_, *call));
    of.data = memory.data();
    of.at = device::StridesOf(of.tokens, of.heads, of.size, /*heads_outside=*/false);
    return Status::Ok();
  }

  // What is kept of each batch and behind it the fresh tokens, in an output as long as the past's
  // memory, or as the longest batch. `present`: becomes that.
  Status Keep(const OpContext& context, const DeviceTensor& past, const Call& call,
              const Vectors& fresh, size_t output, Scratch& kept, Vectors& present) const {
    const int64_t room = past.present() && past.dims.size() == 4 ? past.dims[2] : 0;
    device::KvAppend append;
    append.tokens = std::max(room, call.total);
    if (!call.prompt) {
      append.lengths = call.lengths;
      append.length_more = 1 - fresh.tokens;
    }
    return Append(context, past, fresh, output, append, kept, present);
  }

  DeviceFunction rotary_;
  int64_t heads_ = 0;
  int64_t kv_heads_ = 0;
  int64_t window_ = -1;
  float scale_ = 0.0F;
  float cap_ = 0.0F;
  bool rotates_ = false;
  bool smooth_ = false;
  bool interleaved_ = false;
};

}  // namespace

OrtStatus* CreateGrouped(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Grouped>(state, info, kernel);
}

}  // namespace tunableop
