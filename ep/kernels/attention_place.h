// What the kernels of attention have in common: which part of the work a block has, the mask, and
// what is left behind where the keys are divided.
#include "kernels/attention_args.h"
#include "kernels/team.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

// One batch's keys.
struct Keys {
  UInt32 count;
  Int64 past;  // keys before the first query's own
};

TUNABLEOP_DEVICE Keys KeysOf(const AttentionArgs& args, UInt32 batch) {
  Keys keys;
  keys.count = args.keys;
  if (args.lengths != nullptr) {
    const Int64 length =
        static_cast<Int64>(args.lengths[batch]) + static_cast<Int32>(args.length_more);
    const bool none = length <= 0;
    if (none && args.none_is_all == 0) keys.count = 0;
    if (!none && length < args.keys) keys.count = static_cast<UInt32>(length);
  }
  keys.past = args.past_by_end != 0 ? static_cast<Int64>(keys.count) - args.queries : args.past;
  return keys;
}

// How many of the keys a query sees.
TUNABLEOP_DEVICE UInt32 SeenBy(const AttentionArgs& args, const Keys& keys, UInt32 query) {
  if (args.causal == 0) return keys.count;
  const Int64 before = keys.past + query + 1;
  return before < 0 ? 0 : before < keys.count ? static_cast<UInt32>(before) : keys.count;
}

// Where the mask is of flags: whether a score stays.
TUNABLEOP_DEVICE bool Stays(const AttentionArgs& args, types::b flag) {
  return (flag.value != 0) == (args.mask_flags == 1);
}

// What the mask makes of a score.
TUNABLEOP_DEVICE float Masked(const AttentionArgs& args, float score, Int64 at) {
  if (args.mask_flags != 0) {
    return Stays(args, static_cast<const types::b*>(args.mask)[at]) ? score : args.fill;
  }
  return score + Number<T>::Read(static_cast<const T*>(args.mask)[at]);
}

TUNABLEOP_DEVICE Int64 RowsOf(const AttentionArgs& args) {
  return static_cast<Int64>(args.batches) * args.heads * args.queries;
}

// Where a part's sum of a row (batch, head, query) is, and its largest score and weight.
TUNABLEOP_DEVICE float* PartialSum(const AttentionArgs& args, UInt32 split, Int64 row) {
  return args.partial + (split * RowsOf(args) + row) * args.size;
}
TUNABLEOP_DEVICE float* PartialWeight(const AttentionArgs& args, UInt32 split, Int64 row) {
  const Int64 rows = RowsOf(args);
  return args.partial + rows * args.splits * args.size + (split * rows + row) * 2;
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
