// Attention without its matrix of scores. T0: f32, f16 or bf16. Entries: attention;
// attention_merge, where the keys were divided.
#include "kernels/attention_plain.h"

namespace tunableop::device::TUNABLEOP_MODULE {

TUNABLEOP_KERNEL(attention, AttentionArgs) { RunPlain(args); }

constexpr UInt32 kAtOnce = 8;  // parts that are read before one is waited for

struct Parts {
  float most[kAtOnce];
  float weight[kAtOnce];
  float sum[kAtOnce];
};

// What a row's parts from `first` on gave for one of its numbers; nothing where there are no more.
TUNABLEOP_DEVICE Parts PartsOf(const AttentionMergeArgs& args, Int64 rows, Int64 row, UInt32 number,
                               UInt32 first) {
  const float* const weights = args.partial + rows * args.splits * args.size;
  Parts parts;
  TUNABLEOP_UNROLL
  for (UInt32 u = 0; u < kAtOnce; ++u) {
    parts.most[u] = -Infinity();
    parts.weight[u] = parts.sum[u] = 0.0F;
    if (first + u >= args.splits) continue;
    const Int64 at = (first + u) * rows + row;
    const auto weight = LoadPack<float, 2>(weights + at * 2);
    parts.most[u] = weight.at[0];
    parts.weight[u] = weight.at[1];
    parts.sum[u] = args.partial[at * args.size + number];
  }
  return parts;
}

// A thread makes one number.
TUNABLEOP_KERNEL(attention_merge, AttentionMergeArgs) {
  const Int64 rows = static_cast<Int64>(args.batches) * args.heads * args.queries;
  for (Int64 i = GlobalThread(); i < rows * args.size; i += GlobalThreads()) {
    const Int64 row = i / args.size;
    const UInt32 number = static_cast<UInt32>(i - row * args.size);
    if (number >= args.value_size) continue;
    float most = -Infinity();
    float sum = 0.0F;
    float weight = 0.0F;
    for (UInt32 first = 0; first < args.splits; first += kAtOnce) {
      const Parts parts = PartsOf(args, rows, row, number, first);
      float now = most;
      TUNABLEOP_UNROLL
      for (UInt32 u = 0; u < kAtOnce; ++u) now = Largest::Of(now, parts.most[u]);
      const float from = now == -Infinity() ? 0.0F : now;  // nothing counts so far
      const float factor = Exp(most - from);
      most = now;
      sum *= factor;
      weight *= factor;
      TUNABLEOP_UNROLL
      for (UInt32 u = 0; u < kAtOnce; ++u) {
        const float counts = Exp(parts.most[u] - from);
        weight += parts.weight[u] * counts;
        sum += parts.sum[u] * counts;
      }
    }
    const UInt32 above = static_cast<UInt32>(row) / args.queries;
    const UInt32 batch = above / args.heads;
    T* const out = static_cast<T*>(args.out) + batch * args.out_at.batch +
                   (above - batch * args.heads) * args.out_at.head +
                   (static_cast<UInt32>(row) - above * args.queries) * args.out_at.token;
    if (weight < args.least_weight) weight = args.least_weight;
    out[number] = Number<T>::Write(sum / weight);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
