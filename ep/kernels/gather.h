// Picking elements by indices. T0: w1, w2, w4 or w8; T1: the indices, i32 or i64. Entries: gather,
// gather_elements, gather_nd. An index below zero counts from the end. What lies outside gives
// zeros: memory that is not x's is never read.
#include "kernels/access.h"
#include "kernels/gather_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Place = types::TUNABLEOP_T1;

constexpr int kElements = kPackOf<T>;

// Less than zero: outside.
TUNABLEOP_DEVICE Int64 PlaceOf(Place index, Int64 size) {
  const Int64 at = index < 0 ? index + size : index;
  return at < size ? at : -1;
}

template <int kPack, class Index>
TUNABLEOP_DEVICE void Pick(const GatherArgs& args) {
  const T* const x = static_cast<const T*>(args.x);
  const Place* const indices = static_cast<const Place*>(args.indices);
  T* const out = static_cast<T*>(args.out);
  const Index count = static_cast<Index>(args.outer * args.picked * args.inner);
  for (Index i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Index above = Quotient(i, args.by_inner, args.inner);
    const Index outer = Quotient(above, args.by_picked, args.picked);
    const Int64 c = static_cast<Int64>(i) - static_cast<Int64>(above) * args.inner;
    const Int64 j = static_cast<Int64>(above) - static_cast<Int64>(outer) * args.picked;
    const Int64 at = PlaceOf(indices[j], args.axis);
    Pack<T, kPack> value;
    if (at >= 0) {
      value = LoadPack<T, kPack>(
          x + ((static_cast<Int64>(outer) * args.axis + at) * args.inner + c) * kPack);
    } else {
      TUNABLEOP_UNROLL
      for (int e = 0; e < kPack; ++e) value.at[e] = 0;
    }
    StorePack(out + static_cast<Int64>(i) * kPack, value);
  }
}

TUNABLEOP_KERNEL(gather, GatherArgs) {
  if (args.packed != 0) {
    if (args.wide != 0) {
      Pick<kElements, UInt64>(args);
    } else {
      Pick<kElements, UInt32>(args);
    }
  } else if (args.wide != 0) {
    Pick<1, UInt64>(args);
  } else {
    Pick<1, UInt32>(args);
  }
}

TUNABLEOP_KERNEL(gather_elements, GatherElementsArgs) {
  const Int64 slabs = SlabsOf(args.shape);
  for (Int64 slab = BlockY(); slab < slabs; slab += BlocksY()) {
    const T* const x = static_cast<const T*>(args.x) + slab * args.shape.slab_strides[0];
    const Place* const indices = static_cast<const Place*>(args.indices) + slab * args.shape.slab;
    T* const out = static_cast<T*>(args.out) + slab * args.shape.slab;
    const UInt32 count = CountOf(args.shape, slab);
    for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
      Int32 at[1];
      OffsetsOf(args.shape, i, at);
      const Int64 place = PlaceOf(indices[i], args.axis);
      out[i] = place < 0 ? static_cast<T>(0) : x[at[0] + place * args.axis_stride];
    }
  }
}

TUNABLEOP_KERNEL(gather_nd, GatherNdArgs) {
  const Place* const indices = static_cast<const Place*>(args.indices);
  T* const out = static_cast<T*>(args.out);
  const Int64 count = args.batches * args.rows * args.inner;
  for (Int64 i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 row = i / args.inner;
    Int64 offset = row / args.rows * args.batch + (i - row * args.inner);
    bool inside = true;
    TUNABLEOP_UNROLL
    for (int p = 0; p < kMaxRank; ++p) {
      if (static_cast<UInt32>(p) >= args.parts) break;
      const Int64 at = PlaceOf(indices[row * args.parts + p], args.sizes[p]);
      inside = inside && at >= 0;
      offset += at * args.strides[p];
    }
    out[i] = inside ? static_cast<const T*>(args.x)[offset] : static_cast<T>(0);
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
