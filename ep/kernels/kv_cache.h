// Keys and values that attention keeps from call to call. T0: w2 or w4. Entries: kv_append,
// kv_positions, kv_window.
#include "kernels/access.h"
#include "kernels/kv_cache_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

constexpr int kElements = kPackOf<T>;

// From where an element comes; null: it is zero.
TUNABLEOP_DEVICE const T* Source(const KvAppendArgs& args, UInt32 batch, UInt32 head, Int64 token,
                                 Int64 kept, UInt32 within, Int64 unit) {
  if (token < kept) {
    if (args.past == nullptr || token >= args.past_tokens) return nullptr;
    const Int64 row = (static_cast<Int64>(batch) * args.heads + head) * args.past_tokens + token;
    return static_cast<const T*>(args.past) + (row * args.size + within) * unit;
  }
  if (token - kept >= args.fresh_tokens) return nullptr;
  return static_cast<const T*>(args.fresh) +
         (batch * args.fresh_batch + (token - kept) * args.fresh_token + head * args.fresh_head +
          within) *
             unit;
}

TUNABLEOP_KERNEL(kv_append, KvAppendArgs) {
  const Int64 unit = args.packed != 0 ? kElements : 1;
  for (UInt32 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    const UInt32 row = Quotient(i, args.by_size);
    const UInt32 within = i - row * args.by_size.divisor;
    const UInt32 above = Quotient(row, args.by_tokens);
    const UInt32 batch = Quotient(above, args.by_heads);
    const UInt32 head = above - batch * args.by_heads.divisor;
    Int64 kept = args.kept;
    if (args.lengths != nullptr) kept = args.lengths[batch] + args.length_more;
    if (kept < 0) kept = 0;
    Int64 token = row - above * args.by_tokens.divisor;
    if (args.in_place != 0) token += kept;
    if (token >= args.tokens) continue;
    const T* const from = Source(args, batch, head, token, kept, within, unit);
    T* const to =
        static_cast<T*>(args.present) +
        (((static_cast<Int64>(batch) * args.heads + head) * args.tokens + token) * args.size +
         within) *
            unit;
    if (args.packed != 0) {
      Pack<T, kElements> pack;
      if (from != nullptr) {
        pack = LoadPack<T, kElements>(from);
      } else {
        TUNABLEOP_UNROLL
        for (int e = 0; e < kElements; ++e) pack.at[e] = static_cast<T>(0);
      }
      StorePack(to, pack);
    } else {
      *to = from != nullptr ? *from : static_cast<T>(0);
    }
  }
}

TUNABLEOP_KERNEL(kv_positions, KvPositionsArgs) {
  const Int64 count = args.batches * args.tokens;
  for (Int64 i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 batch = i / args.tokens;
    const Int64 token = i - batch * args.tokens;
    const Int64 length = args.lengths[batch] + args.length_more;
    const Int64 first = args.from_start != 0 ? 0 : length - args.tokens;
    args.out[i] = first + token > 0 ? first + token : 0;
  }
}

TUNABLEOP_KERNEL(kv_window, KvWindowArgs) {
  const Int64 count = args.batches * args.queries * args.keys;
  for (Int64 i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 row = i / args.keys;
    const Int64 batch = row / args.queries;
    const Int64 length = args.lengths[batch] + args.length_more;
    const Int64 first = args.from_start != 0 ? 0 : length - args.queries;
    const Int64 place = first + row - batch * args.queries;
    args.out[i] = i - row * args.keys > place - args.window ? 1 : 0;
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
