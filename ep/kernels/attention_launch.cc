#include "kernels/attention_launch.h"

#include <algorithm>
#include <bit>

namespace tunableop::device {
namespace {

constexpr int64_t kChunk = 4;        // numbers that are read at a time
constexpr int64_t kChunksOfOne = 4;  // chunks of a thread: kChunks on a card
constexpr int64_t kBlock = 128;

bool InChunks(const AttentionTensor& tensor, size_t bytes) noexcept {
  const AttentionStrides& at = tensor.at;
  return at.batch % kChunk == 0 && at.token % kChunk == 0 && at.head % kChunk == 0 &&
         IsAligned(tensor.data, kChunk * bytes);
}

}  // namespace

AttentionStrides StridesOf(int64_t tokens, int64_t heads, int64_t size,
                           bool heads_outside) noexcept {
  AttentionStrides strides{};
  strides.batch = tokens * heads * size;
  strides.token = heads_outside ? size : heads * size;
  strides.head = heads_outside ? tokens * size : size;
  return strides;
}

std::optional<Prepared<AttentionArgs>> PrepareAttention(const AttentionTensors& tensors,
                                                        const AttentionShape& shape,
                                                        size_t bytes) noexcept {
  constexpr int64_t kMost = int64_t{1} << 30;
  constexpr int64_t kBusy = 264;  // blocks, below which a card of today is not
  if (shape.size < 1 || shape.size > 256 || shape.kv_heads < 1) return std::nullopt;
  if (shape.heads % shape.kv_heads != 0) return std::nullopt;
  if (shape.keys > kMost || shape.past > kMost || shape.past < -kMost) return std::nullopt;
  if (shape.batches * shape.heads * shape.queries > kMost) return std::nullopt;

  Prepared<AttentionArgs> prepared{};
  AttentionArgs& args = prepared.args;
  args.q = tensors.q.data;
  args.k = tensors.k.data;
  args.v = tensors.v.data;
  args.mask = tensors.mask.data;
  args.lengths = tensors.lengths;
  args.out = tensors.out;
  args.q_at = tensors.q.at;
  args.k_at = tensors.k.at;
  args.v_at = tensors.v.at;
  args.out_at = tensors.out_at;
  args.mask_at = tensors.mask.at;
  args.batches = static_cast<UInt32>(shape.batches);
  args.heads = static_cast<UInt32>(shape.heads);
  args.sharing = static_cast<UInt32>(shape.heads / shape.kv_heads);
  args.queries = static_cast<UInt32>(shape.queries);
  args.keys = static_cast<UInt32>(shape.keys);
  args.size = static_cast<UInt32>(shape.size);
  args.length_more = static_cast<UInt32>(tensors.length_more);
  args.causal = shape.causal ? 1 : 0;
  args.past_by_end = shape.past_by_end ? 1 : 0;
  args.past = static_cast<Int32>(shape.past);
  args.scale = shape.scale;
  const bool packed = shape.size % kChunk == 0 && InChunks(tensors.q, bytes) &&
                      InChunks(tensors.k, bytes) && InChunks(tensors.v, bytes);
  args.packed = packed ? 1 : 0;

  const int64_t part = kChunk * kChunksOfOne;
  const auto lanes =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((shape.size + part - 1) / part)));
  const int64_t teams = kBlock / lanes;
  const auto blocks = [&](int64_t split) {
    const int64_t in_block = teams / split;
    return shape.batches * shape.heads * ((shape.queries + in_block - 1) / in_block);
  };
  int64_t split = 1;
  while (split < teams && blocks(split) < kBusy) split *= 2;
  args.lanes = static_cast<UInt32>(lanes);
  args.split = static_cast<UInt32>(split);
  prepared.grid.block = kBlock;
  prepared.grid.x = static_cast<UInt32>(std::clamp<int64_t>(blocks(split), 1, 1 << 20));
  return prepared;
}

}  // namespace tunableop::device
