// How the kernels of kv_cache.h are called.
#pragma once

#include "kernels/kv_cache_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

struct KvAppend {
  const void* past = nullptr;  // [batch, heads, past_tokens, size]; null: none
  const void* fresh = nullptr;
  void* present = nullptr;           // [batch, heads, tokens, size]; may be `past`
  const int32_t* lengths = nullptr;  // tokens of each batch before the fresh ones, and length_more
  int64_t length_more = 0;
  int64_t kept = 0;  // without `lengths`: the same of all batches
  int64_t batches = 1;
  int64_t heads = 1;
  int64_t past_tokens = 0;
  int64_t fresh_tokens = 0;
  int64_t tokens = 0;
  int64_t size = 0;         // of a vector
  int64_t fresh_batch = 0;  // strides of `fresh`; a vector is contiguous
  int64_t fresh_token = 0;
  int64_t fresh_head = 0;
};

// `bytes`: of an element. Nothing: 2^30 elements (or packs of 16 bytes) and more.
std::optional<Prepared<KvAppendArgs>> PrepareKvAppend(const KvAppend& append,
                                                      size_t bytes) noexcept;

Prepared<KvPositionsArgs> PrepareKvPositions(const int32_t* lengths, int64_t length_more,
                                             int64_t batches, int64_t tokens, bool from_start,
                                             int64_t* out) noexcept;

struct KvWindow {
  const int32_t* lengths = nullptr;
  int64_t length_more = 0;
  int64_t batches = 1;
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t window = 1;
  bool from_start = false;
};

// `out`: a byte for each key of each query of each batch.
Prepared<KvWindowArgs> PrepareKvWindow(const KvWindow& window, void* out) noexcept;

}  // namespace tunableop::device
