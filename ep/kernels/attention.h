// Attention without its matrix of scores. T0: f32, f16 or bf16. Entries: attention;
// attention_merge, where the keys were divided.
#include "kernels/attention_plain.h"

namespace tunableop::device::TUNABLEOP_MODULE {

TUNABLEOP_KERNEL(attention, AttentionArgs) { RunPlain(args); }

// A thread makes one number.
TUNABLEOP_KERNEL(attention_merge, AttentionMergeArgs) {
  const Int64 rows = static_cast<Int64>(args.batches) * args.heads * args.queries;
  const float* const weights = args.partial + rows * args.splits * args.size;
  for (Int64 i = GlobalThread(); i < rows * args.size; i += GlobalThreads()) {
    const Int64 row = i / args.size;
    const UInt32 number = static_cast<UInt32>(i - row * args.size);
    float most = -Infinity();
    for (UInt32 s = 0; s < args.splits; ++s) {
      most = Largest::Of(most, weights[(s * rows + row) * 2]);
    }
    float sum = 0.0F;
    float weight = 0.0F;
    if (most == -Infinity()) most = 0.0F;  // nothing counts: 0 / 0
    for (UInt32 s = 0; s < args.splits; ++s) {
      const float factor = Exp(weights[(s * rows + row) * 2] - most);
      weight += weights[(s * rows + row) * 2 + 1] * factor;
      sum += args.partial[(s * rows + row) * args.size + number] * factor;
    }
    const UInt32 above = static_cast<UInt32>(row) / args.queries;
    const UInt32 batch = above / args.heads;
    T* const out = static_cast<T*>(args.out) + batch * args.out_at.batch +
                   (above - batch * args.heads) * args.out_at.head +
                   (static_cast<UInt32>(row) - above * args.queries) * args.out_at.token;
    out[number] = Number<T>::Write(sum / weight);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
