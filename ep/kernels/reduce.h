// Reductions over any dimensions, running sums, places of extremes. T0: the type of input and
// output (places are i64). Halves are summed up as floats. Over nothing: sum 0, product 1, extremes
// infinite.
#include "kernels/reduce_args.h"
#include "kernels/team.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using T = types::TUNABLEOP_T0;
using Math = MathOf<T>;

constexpr int kElements = kPackOf<T>;

// What a number counts as before it is combined.
struct Plain {
  TUNABLEOP_MEMBER Math Of(Math x) { return x; }
};
struct Square {
  TUNABLEOP_MEMBER Math Of(Math x) { return Product::Of(x, x); }
};
struct Absolute {
  TUNABLEOP_MEMBER Math Of(Math x) {
    return x < 0 ? static_cast<Math>(static_cast<WrappingOf<Math>>(0) -
                                     static_cast<WrappingOf<Math>>(x))
                 : x;
  }
};

// The row that begins at x, as this thread's part of it.
template <class Op, class Before>
TUNABLEOP_DEVICE Math ReduceRow(const ReduceArgs& args, const Team& team, const T* x, Math value) {
  if (args.packed != 0) {
    const Int64 step = static_cast<Int64>(team.lanes) * kElements;
    for (Int64 i = static_cast<Int64>(team.lane) * kElements; i < args.reduced.count; i += step) {
      const Pack<T, kElements> pack = LoadPack<T, kElements>(x + i);
      TUNABLEOP_UNROLL
      for (int e = 0; e < kElements; ++e) {
        value = Op::Of(value, Before::Of(Number<T>::Read(pack.at[e])));
      }
    }
    return value;
  }
  const Int64 slabs = SlabsOf(args.reduced);
  for (Int64 slab = 0; slab < slabs; ++slab) {
    const T* const from = x + slab * args.reduced.slab_strides[0];
    const UInt32 count = CountOf(args.reduced, slab);
    for (UInt32 i = team.lane; i < count; i += team.lanes) {
      Int32 at[1];
      OffsetsOf(args.reduced, i, at);
      value = Op::Of(value, Before::Of(Number<T>::Read(from[at[0]])));
    }
  }
  return value;
}

template <class Op, class Before, class After>
TUNABLEOP_DEVICE void Reduce(const ReduceArgs& args, Math start, const After& after) {
  const Team team = TeamOf(args.lanes);
  T* const out = static_cast<T*>(args.out);
  const UInt32 count = static_cast<UInt32>(args.kept.count);
  for (UInt32 i = team.number; i < count; i += team.count) {
    Int32 at[1];
    OffsetsOf(args.kept, i, at);
    const T* const x = static_cast<const T*>(args.x) + at[0];
    const Math value = Combine<Op>(team, ReduceRow<Op, Before>(args, team, x, start));
    if (team.lane == 0) out[i] = Number<T>::Write(after.Of(value));
  }
}

struct Itself {
  TUNABLEOP_METHOD Math Of(Math x) const { return x; }
};
struct Over {
  Int64 count;
  TUNABLEOP_METHOD Math Of(Math x) const {
    if constexpr (kFloating<Math>) {
      return x / static_cast<Math>(count);
    } else {
      return count == 0 ? x : static_cast<Math>(x / count);
    }
  }
};

#if TUNABLEOP_IS_FLOATING(TUNABLEOP_T0)
struct Root {
  TUNABLEOP_METHOD Math Of(Math x) const { return Sqrt(x); }
};
constexpr bool kHasInfinity = true;
#else
constexpr bool kHasInfinity = false;
#endif

TUNABLEOP_DEVICE Math Least() {
  if constexpr (kHasInfinity) {
    return static_cast<Math>(-Infinity());
  } else if constexpr (sizeof(T) == 1) {  // u8 and b, which are calculated with as int
    return 0;
  } else {
    return sizeof(Math) == 8 ? static_cast<Math>(-0x7FFFFFFFFFFFFFFFLL - 1)
                             : static_cast<Math>(-0x7FFFFFFF - 1);
  }
}
TUNABLEOP_DEVICE Math Most() {
  if constexpr (kHasInfinity) {
    return static_cast<Math>(Infinity());
  } else if constexpr (sizeof(T) == 1) {
    return 0xFF;
  } else {
    return sizeof(Math) == 8 ? static_cast<Math>(0x7FFFFFFFFFFFFFFFLL)
                             : static_cast<Math>(0x7FFFFFFF);
  }
}

TUNABLEOP_KERNEL(reduce_sum, ReduceArgs) { Reduce<Sum, Plain>(args, 0, Itself{}); }
TUNABLEOP_KERNEL(reduce_mean, ReduceArgs) { Reduce<Sum, Plain>(args, 0, Over{args.reduced.count}); }
TUNABLEOP_KERNEL(reduce_max, ReduceArgs) { Reduce<Largest, Plain>(args, Least(), Itself{}); }
TUNABLEOP_KERNEL(reduce_min, ReduceArgs) { Reduce<Smallest, Plain>(args, Most(), Itself{}); }
TUNABLEOP_KERNEL(reduce_prod, ReduceArgs) { Reduce<Product, Plain>(args, 1, Itself{}); }
TUNABLEOP_KERNEL(reduce_l1, ReduceArgs) { Reduce<Sum, Absolute>(args, 0, Itself{}); }
TUNABLEOP_KERNEL(reduce_sum_square, ReduceArgs) { Reduce<Sum, Square>(args, 0, Itself{}); }
#if TUNABLEOP_IS_FLOATING(TUNABLEOP_T0)
TUNABLEOP_KERNEL(reduce_l2, ReduceArgs) { Reduce<Sum, Square>(args, 0, Root{}); }
#endif

// A thread goes down a whole column; neighbours go down neighbouring ones.
TUNABLEOP_KERNEL(reduce_cumsum, CumSumArgs) {
  const Int64 count = args.outer * args.inner;
  for (Int64 i = GlobalThread(); i < count; i += GlobalThreads()) {
    const Int64 begin = i / args.inner * args.axis * args.inner + i % args.inner;
    const T* const x = static_cast<const T*>(args.x) + begin;
    T* const out = static_cast<T*>(args.out) + begin;
    Math sum = 0;
    for (Int64 j = 0; j < args.axis; ++j) {
      const Int64 at = (args.reverse != 0 ? args.axis - 1 - j : j) * args.inner;
      const Math with = Sum::Of(sum, Number<T>::Read(x[at]));
      out[at] = Number<T>::Write(args.exclusive != 0 ? sum : with);
      sum = with;
    }
  }
}

// NaN is never better, and never worse but where it comes first.
template <class Op>
TUNABLEOP_DEVICE void Place(const ArgArgs& args) {
  const Int64 count = args.outer * args.inner;
  for (Int64 i = GlobalThread(); i < count; i += GlobalThreads()) {
    const T* const x =
        static_cast<const T*>(args.x) + i / args.inner * args.axis * args.inner + i % args.inner;
    Math best = args.axis > 0 ? Number<T>::Read(x[0]) : static_cast<Math>(0);
    Int64 place = 0;
    for (Int64 j = 1; j < args.axis; ++j) {
      const Math value = Number<T>::Read(x[j * args.inner]);
      if (Op::Better(value, best) || (args.last != 0 && value == best)) {
        best = value;
        place = j;
      }
    }
    args.out[i] = place;
  }
}
struct More {
  TUNABLEOP_MEMBER bool Better(Math x, Math than) { return x > than; }
};
struct Less {
  TUNABLEOP_MEMBER bool Better(Math x, Math than) { return x < than; }
};

TUNABLEOP_KERNEL(reduce_argmax, ArgArgs) { Place<More>(args); }
TUNABLEOP_KERNEL(reduce_argmin, ArgArgs) { Place<Less>(args); }

}  // namespace tunableop::device::TUNABLEOP_MODULE
