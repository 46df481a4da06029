#include "kernels/attention_bias_launch.h"

#include <algorithm>

namespace tunableop::device {

int64_t AttentionBias::Heads(const AttentionShape& shape) const noexcept {
  return added_at.head != 0 ? shape.heads : 1;
}

int64_t AttentionBias::Queries(const AttentionShape& shape) const noexcept {
  return mask_is == KeyMask::kQueries || added_at.token != 0 ? shape.queries : 1;
}

int64_t AttentionBias::Elements(const AttentionShape& shape) const noexcept {
  return shape.batches * Heads(shape) * Queries(shape) * shape.keys;
}

std::optional<Prepared<AttentionBiasArgs>> PrepareAttentionBias(const AttentionBias& bias,
                                                                const AttentionShape& shape,
                                                                std::string_view type,
                                                                void* out) noexcept {
  constexpr int64_t kMost = int64_t{1} << 30;
  constexpr float kLeastHalf = -65504.0F;
  const int64_t count = bias.Elements(shape);
  if (count > kMost || shape.batches > kMost) return std::nullopt;
  Prepared<AttentionBiasArgs> prepared{};
  AttentionBiasArgs& args = prepared.args;
  args.mask = bias.mask;
  args.bias = bias.added;
  args.out = out;
  args.bounds = bias.mask_is == KeyMask::kBounds ? 1 : 0;
  args.mask_query = bias.mask_is == KeyMask::kQueries ? shape.keys : 0;
  args.mask_batch = bias.mask_is == KeyMask::kQueries ? shape.queries * shape.keys : shape.keys;
  args.bias_batch = bias.added_at.batch;
  args.bias_head = bias.added_at.head;
  args.bias_query = bias.added_at.token;
  args.bias_key = bias.added_step;
  args.count = static_cast<UInt32>(count);
  args.batches = static_cast<UInt32>(shape.batches);
  args.fill = type == "f16" ? std::max(bias.fill, kLeastHalf) : bias.fill;
  args.by_keys = MakeDivisor(shape.keys);
  args.by_queries = MakeDivisor(bias.Queries(shape));
  args.by_heads = MakeDivisor(bias.Heads(shape));
  prepared.grid = GridFor(count);
  return prepared;
}

}  // namespace tunableop::device
