// What attention adds to its scores, of a mask of integers and of numbers to add. T0: f32, f16 or
// bf16. Entry: attention_bias.
#include "kernels/access.h"
#include "kernels/attention_bias_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;

TUNABLEOP_DEVICE bool Counts(const AttentionBiasArgs& args, UInt32 batch, UInt32 query,
                             UInt32 key) {
  if (args.bounds == 0) {
    return args.mask[batch * args.mask_batch + query * args.mask_query + key] > 0;
  }
  const Int64 at = key;
  return at < args.mask[batch] && at >= args.mask[args.batches + batch];
}

TUNABLEOP_KERNEL(attention_bias, AttentionBiasArgs) {
  T* const out = static_cast<T*>(args.out);
  for (UInt32 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    const UInt32 row = Quotient(i, args.by_keys);
    const UInt32 key = i - row * args.by_keys.divisor;
    const UInt32 above = Quotient(row, args.by_queries);
    const UInt32 query = row - above * args.by_queries.divisor;
    const UInt32 batch = Quotient(above, args.by_heads);
    const UInt32 head = above - batch * args.by_heads.divisor;
    float value = 0.0F;
    if (args.bias != nullptr) {
      value = Number<T>::Read(
          static_cast<const T*>(args.bias)[batch * args.bias_batch + head * args.bias_head +
                                           query * args.bias_query + key * args.bias_key]);
    }
    if (!Counts(args, batch, query, key)) value += args.fill;
    out[i] = Number<T>::Write(value);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
