// How the kernel of attention.h is called.
#pragma once

#include "kernels/attention_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// A tensor of vectors; a vector is contiguous, and where they begin is up to the strides.
struct AttentionTensor {
  const void* data = nullptr;
  AttentionStrides at{};
};

struct AttentionTensors {
  AttentionTensor q;
  AttentionTensor k;
  AttentionTensor v;
  AttentionTensor mask;  // data null: none; strides of 0 broadcast
  const int32_t* lengths = nullptr;
  int32_t length_more = 0;
  void* out = nullptr;
  AttentionStrides out_at{};
};

struct AttentionShape {
  int64_t batches = 1;
  int64_t heads = 1;     // of q
  int64_t kv_heads = 1;  // divides `heads`
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t size = 0;  // numbers of a vector, of all tensors
  float scale = 1.0F;
  bool causal = false;
  bool past_by_end = false;
  int64_t past = 0;
};

// The strides of [batch, token, head, size], or, `heads_outside`, of [batch, head, token, size].
AttentionStrides StridesOf(int64_t tokens, int64_t heads, int64_t size,
                           bool heads_outside) noexcept;

// `bytes`: of one element of everything but the mask. Nothing: vectors of more than 256 numbers,
// heads that cannot be shared, or sizes of 2^31 and more.
std::optional<Prepared<AttentionArgs>> PrepareAttention(const AttentionTensors& tensors,
                                                        const AttentionShape& shape,
                                                        size_t bytes) noexcept;

}  // namespace tunableop::device
