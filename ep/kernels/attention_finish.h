// How the kernel on tensor cores ends: what the warps of a block have summed becomes rows of the
// result, or of a part of it.
#include "kernels/attention_work.h"

namespace tunableop::device::TUNABLEOP_MODULE {

TUNABLEOP_DEVICE void WriteFours(float* to, const float (&eight)[8]) {
  TUNABLEOP_UNROLL
  for (UInt32 half = 0; half < 2; ++half) {
    StorePack(to + half * 4, Pack<float, 4>{{eight[half * 4], eight[half * 4 + 1],
                                             eight[half * 4 + 2], eight[half * 4 + 3]}});
  }
}

// Eight numbers of a row, or, where the keys are divided, of a part's sum.
TUNABLEOP_DEVICE void WriteEight(const AttentionArgs& args, const Work& work, const Row& row,
                                 UInt32 eight, const float (&sum)[8], float largest, float total) {
  if (args.partial != nullptr) {
    const Int64 number =
        (static_cast<Int64>(work.batch) * args.heads + row.head) * args.queries + row.query;
    WriteFours(PartialSum(args, work.split, number) + eight * 8, sum);
    if (eight != 0) return;
    float* const weights = PartialWeight(args, work.split, number);
    weights[0] = largest * kLn2;
    weights[1] = total;
    return;
  }
  const float factor = 1.0F / (total < args.least_weight ? args.least_weight : total);
  float result[8];
  TUNABLEOP_UNROLL
  for (UInt32 e = 0; e < 8; ++e) result[e] = sum[e] * factor;
  T* const out = static_cast<T*>(args.out) + work.batch * args.out_at.batch +
                 row.head * args.out_at.head + row.query * args.out_at.token + eight * 8;
  if constexpr (Alike<T, float>::kValue) {
    WriteFours(reinterpret_cast<float*>(out), result);
  } else {
    Pack<UInt32, 4> packed;
    TUNABLEOP_UNROLL
    for (UInt32 e = 0; e < 4; ++e) packed.at[e] = PairOf<T>(result[e * 2], result[e * 2 + 1]);
    StorePack(reinterpret_cast<UInt32*>(out), packed);
  }
}

// `all`: sixteen rows of each warp, of kPadded numbers; `statistics`: of each row its largest score
// and its weight. Warps that share rows follow one another. `t`: which sixteen of a warp's rows.
template <UInt32 kRowWarps, UInt32 kRowTiles>
TUNABLEOP_DEVICE void WriteRows(const AttentionArgs& args, const Work& work, UInt32 t,
                                const float* all, const float (&statistics)[kWarps][16][2]) {
  constexpr UInt32 kKeyWarps = kWarps / kRowWarps;
  for (UInt32 i = ThreadInBlock(); i < kRowWarps * 16 * kEights; i += kBlock) {
    const UInt32 number = i / kEights;
    const UInt32 eight = i - number * kEights;
    const UInt32 warp = number / 16 * kKeyWarps;
    const UInt32 within = number % 16;
    float largest = -Infinity();
    TUNABLEOP_UNROLL
    for (UInt32 w = 0; w < kKeyWarps; ++w) {
      largest = fmaxf(largest, statistics[warp + w][within][0]);
    }
    const float from = largest == -Infinity() ? 0.0F : largest;
    float total = 0.0F;
    float sum[8] = {};
    TUNABLEOP_UNROLL
    for (UInt32 w = 0; w < kKeyWarps; ++w) {
      const float factor = PowerOfTwo(statistics[warp + w][within][0] - from);
      total += statistics[warp + w][within][1] * factor;
      const float* const at = all + ((warp + w) * 16 + within) * kPadded + eight * 8;
      TUNABLEOP_UNROLL
      for (UInt32 half = 0; half < 2; ++half) {
        const auto four = LoadPack<float, 4>(at + half * 4);
        TUNABLEOP_UNROLL
        for (UInt32 e = 0; e < 4; ++e) sum[half * 4 + e] += four.at[e] * factor;
      }
    }
    const Row row = RowAt(args, work, work.first_row + (number / 16 * kRowTiles + t) * 16 + within);
    if (row.there) WriteEight(args, work, row, eight, sum, largest, total);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
