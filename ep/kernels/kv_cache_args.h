// The arguments of the kernels that keep what attention has seen.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// present = past, and behind what stays of it the fresh tokens; zeros behind those. Past and
// present are [batch, heads, tokens, size]. Where `packed` is set, sizes and strides count packs of
// kPackOf<T0> elements.
struct KvAppendArgs {
  const void* past;  // null: none
  const void* fresh;
  void* present;
  const Int32* lengths;  // of each batch: what stays of its past, and `length_more`; null: `kept`
  Int64 length_more;
  Int64 kept;
  Int64 past_tokens;
  Int64 fresh_tokens;
  Int64 tokens;  // of present
  Int64 heads;
  Int64 size;
  Int64 fresh_batch;  // strides
  Int64 fresh_token;
  Int64 fresh_head;
  UInt32 in_place;  // present is the past's memory: only the fresh tokens are written
  UInt32 packed;
  UInt32 count;  // what is written, or left out: below 2^31
  Divisor by_size;
  Divisor by_tokens;  // of those that are written
  Divisor by_heads;
};

// The place of each token, of what is padding, too: out is [batch, tokens].
struct KvPositionsArgs {
  const Int32* lengths;  // of each batch, the fresh tokens among them, less `length_more`
  Int64* out;
  Int64 length_more;
  Int64 batches;
  Int64 tokens;
  UInt32 from_start;  // the first token is at 0, else the last one at its batch's end
};

// Whether a query sees a key that is not too far behind it: out is [batch, query, key], of bytes.
struct KvWindowArgs {
  const Int32* lengths;  // as those of positions
  unsigned char* out;
  Int64 length_more;
  Int64 batches;
  Int64 queries;
  Int64 keys;
  Int64 window;  // keys that a query sees, its own among them
  UInt32 from_start;
};

}  // namespace tunableop::device
