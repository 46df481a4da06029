// Elementwise kernels with two operands and broadcasting: T0 is the operands' type, T1 the
// result's. Arithmetic: T1 = T0. Comparisons: T1 = b. Logic: both b.
#include "kernels/access.h"
#include "kernels/binary_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using In = types::TUNABLEOP_T0;
using Out = types::TUNABLEOP_T1;
using Math = MathOf<In>;
using Wrap = WrappingOf<Math>;

constexpr int kElements = kPackOf<In, Out>;

template <class Op>
TUNABLEOP_DEVICE Out Apply(In x, In y) {
  return Number<Out>::Write(
      static_cast<MathOf<Out>>(Op::Of(Number<In>::Read(x), Number<In>::Read(y))));
}

// Contiguous, or the same everywhere.
TUNABLEOP_DEVICE Pack<In, kElements> LoadOperand(const In* from, Int64 stride) {
  if (stride != 0) return LoadPack<In, kElements>(from);
  Pack<In, kElements> pack;
  const In value = *from;
  TUNABLEOP_UNROLL
  for (int i = 0; i < kElements; ++i) pack.at[i] = value;
  return pack;
}

// A pack at a time. Elements that make no whole pack are only there in one dimension.
template <class Op>
TUNABLEOP_DEVICE void RunPacked(const Strided<2>& shape, const In* a, const In* b, Out* out,
                                UInt32 count) {
  const Int32 a_stride = shape.strides[0][0];
  const Int32 b_stride = shape.strides[1][0];
  const UInt32 packs = count / kElements;
  for (UInt32 i = GlobalThread(); i < packs; i += GlobalThreads()) {
    Int32 at[2];
    OffsetsOf(shape, i, at);
    const Pack<In, kElements> x = LoadOperand(a + at[0], a_stride);
    const Pack<In, kElements> y = LoadOperand(b + at[1], b_stride);
    Pack<Out, kElements> result;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kElements; ++e) result.at[e] = Apply<Op>(x.at[e], y.at[e]);
    StorePack(out + i * kElements, result);
  }
  const UInt32 rest = packs * kElements + GlobalThread();
  for (UInt32 i = rest; i < count; i += GlobalThreads()) {
    out[i] = Apply<Op>(a[a_stride != 0 ? i : 0], b[b_stride != 0 ? i : 0]);
  }
}

template <class Op>
TUNABLEOP_DEVICE void RunSingle(const Strided<2>& shape, const In* a, const In* b, Out* out,
                                UInt32 count) {
  for (UInt32 i = GlobalThread(); i < count; i += GlobalThreads()) {
    Int32 at[2];
    OffsetsOf(shape, i, at);
    out[i] = Apply<Op>(a[at[0]], b[at[1]]);
  }
}

template <class Op>
TUNABLEOP_DEVICE void Run(const BinaryArgs& args) {
  const Int64 slabs = SlabsOf(args.shape);
  for (Int64 slab = BlockY(); slab < slabs; slab += BlocksY()) {
    const In* const a = static_cast<const In*>(args.a) + slab * args.shape.slab_strides[0];
    const In* const b = static_cast<const In*>(args.b) + slab * args.shape.slab_strides[1];
    Out* const out = static_cast<Out*>(args.out) + slab * args.shape.slab;
    const UInt32 count = CountOf(args.shape, slab);
    if (args.packed != 0) {
      RunPacked<Op>(args.shape, a, b, out, count);
    } else {
      RunSingle<Op>(args.shape, a, b, out, count);
    }
  }
}

#if TUNABLEOP_IS(TUNABLEOP_T1, b)

#define TUNABLEOP_BINARY(Name, entry, expression)                   \
  struct Name {                                                     \
    TUNABLEOP_MEMBER bool Of(Math x, Math y) { return expression; } \
  };                                                                \
  TUNABLEOP_KERNEL(entry, BinaryArgs) { Run<Name>(args); }

TUNABLEOP_BINARY(Equal, binary_equal, x == y)
#if TUNABLEOP_IS(TUNABLEOP_T0, b)
TUNABLEOP_BINARY(And, binary_and, (x & y) != 0)
TUNABLEOP_BINARY(Or, binary_or, (x | y) != 0)
TUNABLEOP_BINARY(Xor, binary_xor, (x ^ y) != 0)
#else
TUNABLEOP_BINARY(Less, binary_less, x < y)
TUNABLEOP_BINARY(LessOrEqual, binary_less_or_equal, x <= y)
TUNABLEOP_BINARY(Greater, binary_greater, x > y)
TUNABLEOP_BINARY(GreaterOrEqual, binary_greater_or_equal, x >= y)
#endif
#undef TUNABLEOP_BINARY

#else

template <class M>
TUNABLEOP_OUTLINE M Power(M x, M y) {
  if constexpr (Alike<M, float>::kValue) {
    return ::powf(x, y);
  } else {
    return ::pow(x, y);
  }
}

template <class M>
TUNABLEOP_OUTLINE M Remainder(M x, M y) {
  if constexpr (Alike<M, float>::kValue) {
    return ::fmodf(x, y);
  } else {
    return ::fmod(x, y);
  }
}

// What a division by zero gives in integers no standard says; a fault of the host it must not be.
template <class M>
TUNABLEOP_DEVICE M Divide(M x, M y) {
  if constexpr (kFloating<M>) {
    return x / y;
  } else {
    if (y == 0) return 0;
    if (y == -1) return static_cast<M>(-static_cast<WrappingOf<M>>(x));
    return x / y;
  }
}

// With the sign of the divisor for integers, as in Python; of the dividend for floating point.
template <class M>
TUNABLEOP_DEVICE M Modulo(M x, M y) {
  if constexpr (kFloating<M>) {
    return Remainder(x, y);
  } else {
    if (y == 0 || y == -1) return 0;
    const M rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  }
}

template <class M>
TUNABLEOP_DEVICE M Truncated(M x, M y) {
  if constexpr (kFloating<M>) {
    return Remainder(x, y);
  } else {
    return y == 0 || y == -1 ? 0 : x % y;
  }
}

template <class M>
TUNABLEOP_DEVICE M Raise(M x, M y) {
  if constexpr (kFloating<M>) {
    if (y == static_cast<M>(2)) return x * x;
    if (y == static_cast<M>(3)) return x * x * x;
    return Power(x, y);
  } else {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
    WrappingOf<M> result = 1;
    for (WrappingOf<M> power = static_cast<WrappingOf<M>>(x); y != 0; y >>= 1, power *= power) {
      if ((y & 1) != 0) result *= power;
    }
    return static_cast<M>(result);
  }
}

#define TUNABLEOP_BINARY(Name, entry, expression)                   \
  struct Name {                                                     \
    TUNABLEOP_MEMBER Math Of(Math x, Math y) { return expression; } \
  };                                                                \
  TUNABLEOP_KERNEL(entry, BinaryArgs) { Run<Name>(args); }

TUNABLEOP_BINARY(Add, binary_add, static_cast<Math>(static_cast<Wrap>(x) + static_cast<Wrap>(y)))
TUNABLEOP_BINARY(Sub, binary_sub, static_cast<Math>(static_cast<Wrap>(x) - static_cast<Wrap>(y)))
TUNABLEOP_BINARY(Mul, binary_mul, static_cast<Math>(static_cast<Wrap>(x) * static_cast<Wrap>(y)))
TUNABLEOP_BINARY(Div, binary_div, Divide(x, y))
// NaN wins, whichever side it is on.
TUNABLEOP_BINARY(Min, binary_min, IsNan(x) || x < y ? x : y)
TUNABLEOP_BINARY(Max, binary_max, IsNan(x) || x > y ? x : y)
TUNABLEOP_BINARY(Pow, binary_pow, Raise(x, y))
TUNABLEOP_BINARY(Mod, binary_mod, Modulo(x, y))
TUNABLEOP_BINARY(Fmod, binary_fmod, Truncated(x, y))
// y is the slope below zero.
TUNABLEOP_BINARY(PRelu, binary_prelu,
                 x < 0 ? static_cast<Math>(static_cast<Wrap>(x) * static_cast<Wrap>(y)) : x)
#undef TUNABLEOP_BINARY

#endif

}  // namespace tunableop::device::TUNABLEOP_MODULE
