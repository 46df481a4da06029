// Writing where indices say. T0: w1, w2, w4 or w8; T1: the indices, i32 or i64. Entries:
// scatter_elements, scatter_nd, scatter_one_hot. An index that is outside writes nothing; of
// several that are alike one wins.
#include "kernels/access.h"
#include "kernels/scatter_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Place = types::TUNABLEOP_T1;

// Less than zero: outside.
TUNABLEOP_DEVICE Int64 PlaceOf(Place index, Int64 size) {
  const Int64 at = index < 0 ? index + size : index;
  return at < size ? at : -1;
}

TUNABLEOP_KERNEL(scatter_elements, ScatterElementsArgs) {
  const Int64 slabs = SlabsOf(args.shape);
  for (Int64 slab = BlockY(); slab < slabs; slab += BlocksY()) {
    const Place* const indices = static_cast<const Place*>(args.indices) + slab * args.shape.slab;
    const T* const updates = static_cast<const T*>(args.updates) + slab * args.shape.slab;
    T* const out = static_cast<T*>(args.out) + slab * args.shape.slab_strides[0];
    const UInt32 count = CountOf(args.shape, slab);
    for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
      Int32 at[1];
      OffsetsOf(args.shape, i, at);
      const Int64 place = PlaceOf(indices[i], args.axis);
      if (place >= 0) out[at[0] + place * args.axis_stride] = updates[i];
    }
  }
}

TUNABLEOP_KERNEL(scatter_nd, ScatterNdArgs) {
  const Place* const indices = static_cast<const Place*>(args.indices);
  const T* const updates = static_cast<const T*>(args.updates);
  const Int64 count = args.rows * args.inner;
  for (Int64 i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 row = i / args.inner;
    Int64 offset = i - row * args.inner;
    bool inside = true;
    TUNABLEOP_UNROLL
    for (int p = 0; p < kMaxRank; ++p) {
      if (static_cast<UInt32>(p) >= args.parts) break;
      const Int64 at = PlaceOf(indices[row * args.parts + p], args.sizes[p]);
      inside = inside && at >= 0;
      offset += at * args.strides[p];
    }
    if (inside) static_cast<T*>(args.out)[offset] = updates[i];
  }
}

TUNABLEOP_KERNEL(scatter_one_hot, OneHotArgs) {
  const Place* const indices = static_cast<const Place*>(args.indices);
  const T* const values = static_cast<const T*>(args.values);
  for (Int64 i = GlobalThread(); i < args.count; i += GlobalThreads()) {
    const Int64 row = i / args.inner;
    const Int64 outer = row / args.depth;
    const Int64 at = PlaceOf(indices[outer * args.inner + (i - row * args.inner)], args.depth);
    static_cast<T*>(args.out)[i] = values[at == row - outer * args.depth ? 1 : 0];
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
