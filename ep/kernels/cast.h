// T0 as T1. Entries: cast, and cast_scaled with a sum and a product behind it. Integers are cut to
// the width of the result. What is no number, or does not fit, becomes the smallest integer, as
// with x86's instructions; and so, through 32 bits, 0 in a u8. Everything but zero is true, NaN
// too.
#include "kernels/access.h"
#include "kernels/cast_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using In = types::TUNABLEOP_T0;
using Out = types::TUNABLEOP_T1;
using InMath = MathOf<In>;
using OutMath = MathOf<Out>;

constexpr int kElements = kPackOf<In, Out>;

template <class M>
TUNABLEOP_DEVICE OutMath Changed(M x) {
  if constexpr (Alike<Out, types::b>::kValue) {
    return x != 0 ? static_cast<OutMath>(1) : static_cast<OutMath>(0);
  } else if constexpr (kFloating<M> && !kFloating<OutMath>) {
    constexpr bool kWide = sizeof(OutMath) == 8;
    const M limit = kWide ? static_cast<M>(9223372036854775808.0) : static_cast<M>(2147483648.0);
    constexpr OutMath kSmallest = kWide ? static_cast<OutMath>(-0x7FFFFFFFFFFFFFFFLL - 1)
                                        : static_cast<OutMath>(-0x7FFFFFFF - 1);
    return x >= -limit && x < limit ? static_cast<OutMath>(x) : kSmallest;
  } else {
    return static_cast<OutMath>(x);
  }
}

struct Plain {
  TUNABLEOP_METHOD OutMath Of(OutMath x) const { return x; }
};

struct Scaled {
  OutMath sign;
  OutMath shift;
  OutMath scale;

  TUNABLEOP_METHOD OutMath Of(OutMath x) const { return (sign * x + shift) * scale; }
};

template <class After>
TUNABLEOP_DEVICE void Run(const CastArgs& args, const After& after) {
  const In* const x = static_cast<const In*>(args.x);
  Out* const out = static_cast<Out*>(args.out);
  const Int64 packs = args.packed != 0 ? args.count / kElements : 0;
  for (Int64 i = GlobalThread(); i < packs; i += GlobalThreads()) {
    const Pack<In, kElements> in = LoadPack<In, kElements>(x + i * kElements);
    Pack<Out, kElements> result;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kElements; ++e) {
      result.at[e] = Number<Out>::Write(after.Of(Changed(Number<In>::Read(in.at[e]))));
    }
    StorePack(out + i * kElements, result);
  }
  for (Int64 i = packs * kElements + GlobalThread(); i < args.count; i += GlobalThreads()) {
    out[i] = Number<Out>::Write(after.Of(Changed(Number<In>::Read(x[i]))));
  }
}

TUNABLEOP_KERNEL(cast, CastArgs) { Run(args, Plain{}); }

TUNABLEOP_KERNEL(cast_scaled, CastScaledArgs) {
  if constexpr (kFloating<OutMath>) {
    Run(args.cast, Scaled{static_cast<OutMath>(args.sign), static_cast<OutMath>(args.shift),
                          static_cast<OutMath>(args.scale)});
  }
}

}  // namespace tunableop::device::TUNABLEOP_MODULE
