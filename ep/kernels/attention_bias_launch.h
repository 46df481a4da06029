// How the kernel of attention_bias.h is called.
#pragma once

#include <string_view>

#include "kernels/attention_bias_args.h"
#include "kernels/attention_launch.h"

namespace tunableop::device {

// What integers say of keys: where they end and begin, [2 * batch], or which count, for all
// queries, [batch, key], or for each, [batch, query, key].
enum class KeyMask : uint8_t { kBounds, kKeys, kQueries };

// What attention is to add to its scores; as a mask of AttentionTensors it is contiguous.
struct AttentionBias {
  const int32_t* mask = nullptr;
  KeyMask mask_is = KeyMask::kKeys;
  const void* added = nullptr;  // null: nothing
  AttentionStrides added_at{};
  int64_t added_step = 0;  // from one key's to the next
  float fill = 0;          // added where a key does not count; kept within what the type holds

  // Dimensions of what is made: heads and queries that do not differ are one.
  int64_t Heads(const AttentionShape& shape) const noexcept;
  int64_t Queries(const AttentionShape& shape) const noexcept;
  int64_t Elements(const AttentionShape& shape) const noexcept;
};

// `type`: of `added` and `out`. Nothing: 2^30 elements and more.
std::optional<Prepared<AttentionBiasArgs>> PrepareAttentionBias(const AttentionBias& bias,
                                                                const AttentionShape& shape,
                                                                std::string_view type,
                                                                void* out) noexcept;

}  // namespace tunableop::device
