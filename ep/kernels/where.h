// Choosing between two operands with broadcasting. T0: w1, w2, w4 or w8. Entry: where.
#include "kernels/access.h"
#include "kernels/where_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Flag = unsigned char;

constexpr int kElements = kPackOf<T>;

template <class E>
TUNABLEOP_DEVICE Pack<E, kElements> LoadOperand(const E* from, Int32 stride) {
  if (stride != 0) return LoadPack<E, kElements>(from);
  Pack<E, kElements> pack;
  const E value = *from;
  TUNABLEOP_UNROLL
  for (int i = 0; i < kElements; ++i) pack.at[i] = value;
  return pack;
}

struct Operands {
  const Flag* condition;
  const T* a;
  const T* b;
  T* out;
};

TUNABLEOP_DEVICE void RunPacked(const Strided<3>& shape, const Operands& of, UInt32 count) {
  const UInt32 packs = count / kElements;
  for (UInt32 i = GlobalThread(); i < packs; i += GlobalThreads()) {
    Int32 at[3];
    OffsetsOf(shape, i, at);
    const auto flags = LoadOperand(of.condition + at[0], shape.strides[0][0]);
    const auto x = LoadOperand(of.a + at[1], shape.strides[1][0]);
    const auto y = LoadOperand(of.b + at[2], shape.strides[2][0]);
    Pack<T, kElements> result;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kElements; ++e) result.at[e] = flags.at[e] != 0 ? x.at[e] : y.at[e];
    StorePack(of.out + i * kElements, result);
  }
  const UInt32 rest = packs * kElements + GlobalThread();
  for (UInt32 i = rest; i < count; i += GlobalThreads()) {
    const UInt32 at[3] = {shape.strides[0][0] != 0 ? i : 0, shape.strides[1][0] != 0 ? i : 0,
                          shape.strides[2][0] != 0 ? i : 0};
    of.out[i] = of.condition[at[0]] != 0 ? of.a[at[1]] : of.b[at[2]];
  }
}

TUNABLEOP_DEVICE void RunSingle(const Strided<3>& shape, const Operands& of, UInt32 count) {
  for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
    Int32 at[3];
    OffsetsOf(shape, i, at);
    of.out[i] = of.condition[at[0]] != 0 ? of.a[at[1]] : of.b[at[2]];
  }
}

TUNABLEOP_KERNEL(where, WhereArgs) {
  const Int64 slabs = SlabsOf(args.shape);
  for (Int64 slab = BlockY(); slab < slabs; slab += BlocksY()) {
    const Operands of = {
        static_cast<const Flag*>(args.condition) + slab * args.shape.slab_strides[0],
        static_cast<const T*>(args.a) + slab * args.shape.slab_strides[1],
        static_cast<const T*>(args.b) + slab * args.shape.slab_strides[2],
        static_cast<T*>(args.out) + slab * args.shape.slab};
    const UInt32 count = CountOf(args.shape, slab);
    if (args.packed != 0) {
      RunPacked(args.shape, of, count);
    } else {
      RunSingle(args.shape, of, count);
    }
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
