// The arguments of the kernel that makes one mask of two.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// out = bias, and `fill` added where a key does not count. `out` is [batch, head, query, key]; the
// others are broadcast by strides of 0.
struct AttentionBiasArgs {
  const Int32* mask;
  const void* bias;  // null: zeros
  void* out;
  Int64 mask_batch;  // strides
  Int64 mask_query;
  Int64 bias_batch;
  Int64 bias_head;
  Int64 bias_query;
  Int64 bias_key;
  UInt32 count;  // below 2^31
  UInt32 batches;
  // The mask is no flags for each key, of which those count that are above 0: it is where each
  // batch's keys end, and behind those, where they begin.
  UInt32 bounds;
  float fill;
  Divisor by_keys;
  Divisor by_queries;
  Divisor by_heads;
};

}  // namespace tunableop::device
