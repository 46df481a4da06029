// The arguments of the attention kernels.
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
  const void* mask;      // null: none
  const Int32* lengths;  // of the keys of each batch; null: all
  const void* sinks;     // one of each head, where there are such; null: zeros
  void* out;
  // Where the keys are divided: sums [split, batch, head, query, size], and behind them, for each
  // of those vectors, its largest score and its weight. Null where they are not.
  float* partial;
  AttentionStrides q_at;
  AttentionStrides k_at;
  AttentionStrides v_at;
  AttentionStrides out_at;
  AttentionStrides mask_at;  // batch, query, head
  Int64 k_step;              // from one number of a key to the next
  Int64 mask_step;           // from one key's to the next
  UInt32 batches;
  UInt32 heads;
  UInt32 sharing;  // heads of q that share one of k and v
  UInt32 queries;
  UInt32 keys;
  UInt32 size;         // numbers of a vector: of the longer ones, where values have their own
  UInt32 key_size;     // of a query and a key
  UInt32 value_size;   // of a value and a result
  UInt32 splits;       // parts of the keys, each by a block of its own
  UInt32 split_keys;   // keys of a part
  UInt32 length_more;  // added to each of `lengths`
  UInt32 none_is_all;  // a batch of length 0 has all keys
  UInt32 has_sinks;    // a score beside those of keys, which only takes its share
  UInt32 causal;       // query i sees the keys before past + i + 1
  UInt32 past_by_end;  // the last query is the last key's: past is a batch's keys less its queries
  Int32 past;
  UInt32 mask_flags;  // 0: the mask is added. 1: it is of bytes, and where they are 0 a score is
                      // `fill` instead; 2: where they are not
  UInt32 mask_pairs;  // two neighbours of the mask can be read at once
  UInt32 packed;      // all vectors can be read four numbers at a time
  UInt32 lanes;       // threads of a query: see TeamOf
  UInt32 team_split;  // teams of a block that share the keys of one query: a power of two
  float scale;
  float cap;  // of a score, before masks: cap * tanh(score / cap); 0: none
  float fill;
  float least_weight;  // of a row's sum, whose weight is 1 or more but where nothing counts: 0
                       // makes that NaN, as the formula does, and anything else 0
};

// Makes one sum of those that the parts of the keys gave.
struct AttentionMergeArgs {
  const float* partial;
  void* out;
  AttentionStrides out_at;
  UInt32 batches;
  UInt32 heads;
  UInt32 queries;
  UInt32 size;
  UInt32 value_size;
  UInt32 splits;
  float least_weight;
};

}  // namespace tunableop::device
