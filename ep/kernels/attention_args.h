// The arguments of the attention kernel.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// Where the vectors of a tensor are, in elements; a vector is contiguous.
struct AttentionStrides {
  Int64 batch;
  Int64 token;
  Int64 head;
};

// out = softmax(q k^T * scale + mask) v, for each head of each batch.
struct AttentionArgs {
  const void* q;
  const void* k;
  const void* v;
  const void* mask;      // null: none. Added, or flags: what is false counts nothing
  const Int32* lengths;  // of the keys of each batch; null: all
  void* out;
  AttentionStrides q_at;
  AttentionStrides k_at;
  AttentionStrides v_at;
  AttentionStrides out_at;
  AttentionStrides mask_at;  // batch, query, head; of keys the step is 1
  UInt32 batches;
  UInt32 heads;
  UInt32 sharing;  // heads of q that share one of k and v
  UInt32 queries;
  UInt32 keys;
  UInt32 size;         // numbers of a vector
  UInt32 length_more;  // added to each of `lengths`
  UInt32 causal;       // query i sees the keys before past + i + 1
  UInt32 past_by_end;  // the last query is the last key's: past is a batch's keys less its queries
  Int32 past;
  UInt32 packed;  // all vectors can be read four numbers at a time
  UInt32 lanes;   // threads of a query: see TeamOf
  UInt32 split;   // teams that share the keys of one query: a power of two
  float scale;
};

}  // namespace tunableop::device
