#include "provider/kernels/attention_kernel.h"

#include <algorithm>
#include <utility>

#include "provider/kernels/element.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"

namespace tunableop {
namespace {

// What a score becomes whose key is not seen; finite, so that a query of padding alone has no NaN.
constexpr float kLowest = -1e30F;

}  // namespace

std::optional<Vectors> JoinedHeads(const DeviceTensor& tensor, int64_t heads) {
  if (tensor.dims.size() != 3 || heads < 1 || tensor.dims[2] % heads != 0) return std::nullopt;
  Vectors made;
  made.data = tensor.data;
  made.batches = tensor.dims[0];
  made.tokens = tensor.dims[1];
  made.heads = heads;
  made.size = tensor.dims[2] / heads;
  made.at = device::StridesOf(made.tokens, heads, made.size, /*heads_outside=*/false);
  return made;
}

std::optional<Vectors> SeparateHeads(const DeviceTensor& tensor) {
  if (tensor.dims.size() != 4) return std::nullopt;
  Vectors made;
  made.data = tensor.data;
  made.batches = tensor.dims[0];
  made.heads = tensor.dims[1];
  made.tokens = tensor.dims[2];
  made.size = tensor.dims[3];
  made.at = device::StridesOf(made.tokens, made.heads, made.size, /*heads_outside=*/true);
  return made;
}

Status AttentionKernel::FindKernels(const OpInfo& info, int64_t size) {
  const ONNXTensorElementDataType type = info.InputType(0);
  type_ = ModuleType(type);
  bytes_ = ElementBytes(type);
  const char* const width = WidthType(type);
  TUNABLEOP_RETURN_IF_ERROR(Find("attention", type_, type_, "attention", &plain_));
  TUNABLEOP_RETURN_IF_ERROR(Find("attention", type_, type_, "attention_merge", &merge_));
  const char* family = device::AttentionTilesFamily(type_, size);
  if (family != nullptr && device::AttentionTilesRunOn(gpu().device().info().arch)) {
    TUNABLEOP_RETURN_IF_ERROR(Find(family, type_, type_, "attention_rows", &rows_));
    TUNABLEOP_RETURN_IF_ERROR(Find(family, type_, type_, "attention_keys", &keys_));
    has_tiles_ = true;
  }
  TUNABLEOP_RETURN_IF_ERROR(Find("kv_cache", width, width, "kv_positions", &positions_));
  TUNABLEOP_RETURN_IF_ERROR(Find("kv_cache", width, width, "kv_window", &window_));
  return Find("kv_cache", width, width, "kv_append", &append_);
}

Status AttentionKernel::Take(const OpContext& context, size_t bytes, Scratch& scratch) const {
  scratch = Scratch(*gpu().memory(), bytes, context.stream());
  return scratch.data() != nullptr ? Status::Ok() : NoMemory(gpu());
}

Status AttentionKernel::Attend(const OpContext& context, const device::AttentionTensors& tensors,
                               const device::AttentionShape& shape) const {
  if (shape.keys == 0) {
    const int64_t size = shape.value_size > 0 ? shape.value_size : shape.size;
    const int64_t numbers = shape.batches * shape.heads * shape.queries * size;
    return context.device().Fill(tensors.out, 0, static_cast<size_t>(numbers) * bytes_,
                                 context.stream());
  }
  std::optional<device::AttentionCall> call =
      device::PrepareAttention(tensors, shape, type_, {.tiles = has_tiles_, .scratch = true});
  if (!call) {
    return context.Error(StatusCode::kNotSupported,
                         "vectors of more than " + std::to_string(device::kMostAttentionSize) +
                             " numbers, or 2^30 of them, have no kernel");
  }
  Scratch scratch;
  if (call->scratch_bytes > 0) {
    TUNABLEOP_RETURN_IF_ERROR(Take(context, call->scratch_bytes, scratch));
    call->SetScratch(scratch.data());
  }
  const DeviceFunction& function = call->entry == device::AttentionEntry::kAny    ? plain_
                                   : call->entry == device::AttentionEntry::kRows ? rows_
                                                                                  : keys_;
  TUNABLEOP_RETURN_IF_ERROR(context.Launch(function, call->call));
  return scratch.data() != nullptr ? context.Launch(merge_, call->merge) : Status::Ok();
}

Status AttentionKernel::Append(const OpContext& context, const DeviceTensor& past,
                               const Vectors& fresh, size_t output, device::KvAppend append,
                               Scratch& kept, Vectors& present) const {
  const int64_t room = past.present() && past.dims.size() == 4 ? past.dims[2] : 0;
  const std::array<int64_t, 4> dims{fresh.batches, fresh.heads, append.tokens, fresh.size};
  if (past.present() && (past.dims.size() != 4 || past.dims[0] != dims[0] ||
                         past.dims[1] != dims[1] || past.dims[3] != dims[3])) {
    return context.TooManyDims({past.dims, dims});
  }
  DeviceTensor whole;
  if (output < context.outputs()) {
    Result<DeviceTensor> asked = context.Output(output, dims);
    if (!asked.ok()) return asked.TakeStatus();
    whole = asked.value();
  }
  if (!whole.present() && room == 0 && append.tokens == fresh.tokens) {  // it is all there already
    present = fresh;
    return Status::Ok();
  }
  const int64_t elements = dims[0] * dims[1] * dims[2] * dims[3];
  append.present = whole.data;
  if (!whole.present() && elements > 0) {
    TUNABLEOP_RETURN_IF_ERROR(Take(context, static_cast<size_t>(elements) * bytes_, kept));
    append.present = kept.data();
  }
  append.past = room > 0 ? past.data : nullptr;
  append.fresh = fresh.data;
  append.past_tokens = room;
  append.batches = dims[0];
  append.heads = dims[1];
  append.fresh_tokens = fresh.tokens;
  append.size = dims[3];
  append.fresh_batch = fresh.at.batch;
  append.fresh_token = fresh.at.token;
  append.fresh_head = fresh.at.head;
  present = fresh;
  present.data = append.present;
  present.tokens = dims[2];
  present.at = device::StridesOf(dims[2], dims[1], dims[3], /*heads_outside=*/true);
  if (elements == 0) return Status::Ok();
  const auto call = device::PrepareKvAppend(append, bytes_);
  if (!call) {
    return context.Error(StatusCode::kNotSupported, "a past of 2^30 vectors has no kernel");
  }
  return context.Launch(append_, *call);
}

Status AttentionKernel::Append(const OpContext& context, const DeviceTensor& past,
                               const Vectors& fresh, size_t output, Scratch& kept,
                               Vectors& present) const {
  device::KvAppend append;
  append.kept = past.present() && past.dims.size() == 4 ? past.dims[2] : 0;
  append.tokens = append.kept + fresh.tokens;
  return Append(context, past, fresh, output, append, kept, present);
}

Status AttentionKernel::Limit(const OpContext& context, const device::KvWindow& window,
                              Scratch& seen, device::AttentionTensors& tensors) const {
  const int64_t count = window.batches * window.queries * window.keys;
  if (count == 0) return Status::Ok();
  TUNABLEOP_RETURN_IF_ERROR(Take(context, static_cast<size_t>(count), seen));
  TUNABLEOP_RETURN_IF_ERROR(context.Launch(window_, device::PrepareKvWindow(window, seen.data())));
  tensors.mask = {seen.data(), {window.queries * window.keys, window.keys, 0}};
  tensors.mask_step = 1;
  tensors.mask_is = device::AttentionMask::kKeepsTrue;
  tensors.fill = kLowest;
  return Status::Ok();
}

Status AttentionKernel::FindMasks(const OpInfo& info, size_t mask) {
  constexpr float kFill = -10000.0F;  // ONNX Runtime's
  fill_ = info.Float("mask_filter_value", kFill);
  if (info.InputType(mask) == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED) return Status::Ok();
  const char* const type = ModuleType(info.InputType(0));
  return Find("attention_bias", type, type, "attention_bias", &bias_);
}

Status AttentionKernel::ReadMasks(const OpContext& context, const DeviceTensor& mask,
                                  const DeviceTensor& added, const device::AttentionShape& shape,
                                  Scratch& made, device::AttentionTensors& tensors) const {
  if (added.present() && !MaskOf(added, shape, tensors)) {
    const std::array<int64_t, 4> scores{shape.batches, shape.heads, shape.queries, shape.keys};
    return context.TooManyDims({scores, added.dims});
  }
  if (!mask.present()) return Status::Ok();
  const std::span<const int64_t> dims = mask.dims;
  const auto is = [&](std::initializer_list<int64_t> shape_of) {
    return std::ranges::equal(dims, shape_of);
  };
  device::AttentionBias bias;
  if (is({shape.batches}) || is({3 * shape.batches + 2})) {
    tensors.lengths = static_cast<const int32_t*>(mask.data);
    tensors.none_is_all = true;
    return Status::Ok();
  }
  if (is({2 * shape.batches})) {
    bias.mask_is = device::KeyMask::kBounds;
  } else if (is({shape.batches, shape.queries, shape.keys})) {
    bias.mask_is = device::KeyMask::kQueries;
  } else if (!is({shape.batches, shape.keys})) {
    // What is the same for all keys changes nothing.
    if (is({shape.batches, 1}) || is({1, 1})) return Status::Ok();
    return context.Error(StatusCode::kInvalidArgument,
                         "a mask of " + DimsText(dims) +
                             " is none of [batch], [2 * batch], [3 * batch + 2], [batch, keys] and "
                             "[batch, queries, keys]");
  }
  bias.mask = static_cast<const int32_t*>(mask.data);
  bias.added = tensors.mask.data;
  bias.added_at = tensors.mask.at;
  bias.added_step = added.present() ? tensors.mask_step : 0;
  bias.fill = fill_;
  const int64_t count = bias.Elements(shape);
  if (count == 0) return Status::Ok();
  TUNABLEOP_RETURN_IF_ERROR(Take(context, static_cast<size_t>(count) * bytes_, made));
  const auto call = device::PrepareAttentionBias(bias, shape, type_, made.data());
  if (!call) return context.Error(StatusCode::kNotSupported, "masks of 2^30 elements and more");
  TUNABLEOP_RETURN_IF_ERROR(context.Launch(bias_, *call));
  const int64_t queries = bias.Queries(shape);
  const int64_t heads = bias.Heads(shape);
  tensors.mask = {made.data(),
                  {heads * queries * shape.keys, queries > 1 ? shape.keys : 0,
                   heads > 1 ? queries * shape.keys : 0}};
  tensors.mask_step = 1;
  tensors.mask_is = device::AttentionMask::kAdded;
  return Status::Ok();
}

Status AttentionKernel::AttendLastToAll(const OpContext& context, device::AttentionTensors tensors,
                                        device::AttentionShape shape) const {
  const int64_t before = shape.queries - 1;  // the last
  if (!shape.causal || shape.past + shape.queries >= shape.keys) {
    return Attend(context, tensors, shape);
  }
  if (before > 0) {
    shape.queries = before;
    TUNABLEOP_RETURN_IF_ERROR(Attend(context, tensors, shape));
  }
  const auto bytes = static_cast<int64_t>(bytes_);
  const auto skip = [&](const void* data, int64_t token, int64_t width) {
    return data == nullptr ? data : static_cast<const std::byte*>(data) + before * token * width;
  };
  tensors.q.data = skip(tensors.q.data, tensors.q.at.token, bytes);
  tensors.mask.data = skip(tensors.mask.data, tensors.mask.at.token, bytes);
  tensors.out = static_cast<std::byte*>(tensors.out) + before * tensors.out_at.token * bytes;
  shape.queries = 1;
  shape.causal = false;
  return Attend(context, tensors, shape);
}

bool AttentionKernel::Fit(const Vectors& q, const Vectors& k, const Vectors& v) noexcept {
  return q.batches == k.batches && k.batches == v.batches && k.tokens == v.tokens &&
         k.heads == v.heads && k.heads > 0 && q.heads % k.heads == 0 && q.size == k.size;
}

bool AttentionKernel::MaskOf(const DeviceTensor& mask, const device::AttentionShape& shape,
                             device::AttentionTensors& tensors) {
  constexpr size_t kRank = 4;
  if (mask.dims.size() > kRank) return false;
  const std::array<int64_t, kRank> full{shape.batches, shape.heads, shape.queries, shape.keys};
  std::array<int64_t, kRank> strides{};
  int64_t stride = 1;
  for (size_t i = 0; i < mask.dims.size(); ++i) {
    const size_t at = kRank - 1 - i;
    const int64_t dim = mask.dims[mask.dims.size() - 1 - i];
    if (dim != 1 && dim != full[at]) return false;
    strides[at] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  tensors.mask = {mask.data, {strides[0], strides[2], strides[1]}};
  tensors.mask_step = strides[3];
  tensors.mask_is = mask.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL
                        ? device::AttentionMask::kKeepsTrue
                        : device::AttentionMask::kAdded;
  return true;
}

}  // namespace tunableop
