// Images of other sizes. T0: f32, f16, bf16 or f64. Entries: resize_nearest, resize_linear. Places
// are calculated as ONNX Runtime calculates them, in floats.
#include "kernels/access.h"
#include "kernels/resize_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

TUNABLEOP_DEVICE float PlaceOf(const ResizeArgs& args, int d, Int64 at) {
  const float place = static_cast<float>(at);
  if (args.place == ResizePlace::kAsymmetric) return place / args.scales[d];
  if (args.place == ResizePlace::kAlignCorners) {
    return args.outs[d] == 1 ? 0.0F
                             : place * static_cast<float>(args.sizes[d] - 1) /
                                   static_cast<float>(args.outs[d] - 1);
  }
  if (args.place == ResizePlace::kHalfPixelOfMore && args.outs[d] <= 1) return 0.0F;
  return args.offsets[d] + (place + 0.5F) / args.scales[d] - 0.5F;
}

TUNABLEOP_DEVICE Int64 Within(float place, Int64 size) {
  if (!(place > 0.0F)) return 0;
  const Int64 at = static_cast<Int64>(place);
  return at < size ? at : size - 1;
}

// What is as near to a half counts as one, as in ONNX Runtime.
constexpr float kHalfway = 1e-6F;

TUNABLEOP_DEVICE Int64 Nearest(float place, Int64 size, ResizeRound round) {
  const float below = Floor(place);
  const float rest = place - below;
  if (round == ResizeRound::kFloor) return Within(below, size);
  if (round == ResizeRound::kCeil) return Within(Ceil(place), size);
  const float beyond = rest - 0.5F;
  const bool half = beyond < kHalfway && beyond > -kHalfway;
  const bool up = half ? round == ResizeRound::kPreferCeil : beyond > 0.0F;
  return Within(up ? below + 1.0F : below, size);
}

TUNABLEOP_KERNEL(resize_nearest, ResizeArgs) {
  for (Int64 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    Int64 left = i;
    Int64 from = 0;
    TUNABLEOP_UNROLL
    for (int d = 0; d < kMaxRank; ++d) {
      if (static_cast<UInt32>(d) >= args.rank) break;
      const Int64 rest = left / args.outs[d];
      const Int64 at = left - rest * args.outs[d];
      from +=
          args.strides[d] *
          (args.scales[d] == 1.0F ? at : Nearest(PlaceOf(args, d, at), args.sizes[d], args.round));
      left = rest;
    }
    static_cast<T*>(args.out)[i] = static_cast<const T*>(args.x)[from];
  }
}

// Each dimension that has another size doubles what is looked at.
TUNABLEOP_KERNEL(resize_linear, ResizeArgs) {
  const T* const x = static_cast<const T*>(args.x);
  for (Int64 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    Int64 left = i;
    Int64 from = 0;
    Int64 steps[kMaxRank];
    Math shares[kMaxRank];  // of the neighbour that is a step on
    UInt32 corners = 1;
    TUNABLEOP_UNROLL
    for (int d = 0; d < kMaxRank; ++d) {
      steps[d] = 0;
      shares[d] = 0;
      if (static_cast<UInt32>(d) >= args.rank) continue;
      const Int64 rest = left / args.outs[d];
      Int64 at = left - rest * args.outs[d];
      left = rest;
      if (args.scales[d] != 1.0F) {
        const float last = static_cast<float>(args.sizes[d] - 1);
        const float place = PlaceOf(args, d, at);
        const float kept = place < 0.0F ? 0.0F : place > last ? last : place;
        at = Within(kept, args.sizes[d]);
        if (at + 1 < args.sizes[d]) {
          steps[d] = args.strides[d];
          shares[d] = static_cast<Math>(kept - static_cast<float>(at));
        }
        corners = 1U << (d + 1);
      }
      from += at * args.strides[d];
    }
    Math sum = 0;
    for (UInt32 corner = 0; corner < corners; ++corner) {
      Math share = 1;
      Int64 offset = 0;
      TUNABLEOP_UNROLL
      for (int d = 0; d < kMaxRank; ++d) {
        const bool further = (corner >> d & 1U) != 0;
        share *= further ? shares[d] : static_cast<Math>(1) - shares[d];
        offset += further ? steps[d] : 0;
      }
      if (share != 0) sum += share * Number<T>::Read(x[from + offset]);
    }
    static_cast<T*>(args.out)[i] = Number<T>::Write(sum);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
