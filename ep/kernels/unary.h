// Elementwise kernels with one operand: T0 is its type, T1 the result's, which is the same but for
// questions (b).
#include "kernels/access.h"
#include "kernels/activations.h"
#include "kernels/unary_args.h"

namespace tunableop::device::TUNABLEOP_MODULE {

using In = types::TUNABLEOP_T0;
using Out = types::TUNABLEOP_T1;
using Math = MathOf<In>;

constexpr int kElements = kPackOf<In, Out>;

template <class Op>
TUNABLEOP_DEVICE Out Apply(In x, const UnaryArgs& args) {
  return Number<Out>::Write(static_cast<MathOf<Out>>(Op::Of(Number<In>::Read(x), args)));
}

template <class Op>
TUNABLEOP_DEVICE void Run(const UnaryArgs& args) {
  const In* const x = static_cast<const In*>(args.x);
  Out* const out = static_cast<Out*>(args.out);
  const Int64 packs = args.packed != 0 ? args.count / kElements : 0;
  for (Int64 i = GlobalThread(); i < packs; i += GlobalThreads()) {
    const Pack<In, kElements> in = LoadPack<In, kElements>(x + i * kElements);
    Pack<Out, kElements> result;
    TUNABLEOP_UNROLL
    for (int e = 0; e < kElements; ++e) result.at[e] = Apply<Op>(in.at[e], args);
    StorePack(out + i * kElements, result);
  }
  for (Int64 i = packs * kElements + GlobalThread(); i < args.count; i += GlobalThreads()) {
    out[i] = Apply<Op>(x[i], args);
  }
}

#define TUNABLEOP_UNARY(Name, entry, expression)                               \
  struct Name {                                                                \
    TUNABLEOP_MEMBER Math Of(Math x, [[maybe_unused]] const UnaryArgs& args) { \
      return expression;                                                       \
    }                                                                          \
  };                                                                           \
  TUNABLEOP_KERNEL(entry, UnaryArgs) { Run<Name>(args); }

#if TUNABLEOP_IS(TUNABLEOP_T1, b)

#if TUNABLEOP_IS(TUNABLEOP_T0, b)
TUNABLEOP_UNARY(Not, unary_not, x == 0 ? 1 : 0)
#else
TUNABLEOP_UNARY(IsNanOf, unary_isnan, IsNan(x) ? 1 : 0)
// alpha: whether negative ones count; beta: positive ones.
TUNABLEOP_UNARY(IsInf, unary_isinf,
                (args.alpha != 0 && x == -Infinity()) || (args.beta != 0 && x == Infinity()) ? 1
                                                                                             : 0)
#endif

#else

#if TUNABLEOP_IS_FLOATING(TUNABLEOP_T0)

TUNABLEOP_DEVICE Math SoftPlus(Math x) {
  return (x > 0 ? x : static_cast<Math>(0)) + Log1p(Exp(-Magnitude(x)));
}

// NaN stays.
TUNABLEOP_DEVICE Math Between(Math x, Math low, Math high) {
  const Math above = x < low ? low : x;
  return above > high ? high : above;
}

TUNABLEOP_DEVICE Math HardLogistic(Math x, Math alpha, Math beta) {
  return Between(alpha * x + beta, static_cast<Math>(0), static_cast<Math>(1));
}

#define ALPHA static_cast<Math>(args.alpha)
#define BETA static_cast<Math>(args.beta)
TUNABLEOP_UNARY(SqrtOf, unary_sqrt, Sqrt(x))
TUNABLEOP_UNARY(ErfOf, unary_erf, Erf(x))
TUNABLEOP_UNARY(TanhOf, unary_tanh, Tanh(x))
TUNABLEOP_UNARY(Sigmoid, unary_sigmoid, Logistic(x))
TUNABLEOP_UNARY(Gelu, unary_gelu, GeluByErfAs<Out>(x))
TUNABLEOP_UNARY(GeluTanh, unary_gelu_tanh, GeluByTanhAs<Out>(x))
TUNABLEOP_UNARY(QuickGelu, unary_quick_gelu, x* LogisticAs<Out>(ALPHA* x))  // alpha 1: SiLU
TUNABLEOP_UNARY(Scale, unary_scale, x* ALPHA)
TUNABLEOP_UNARY(Reciprocal, unary_reciprocal, static_cast<Math>(1) / x)
TUNABLEOP_UNARY(ExpOf, unary_exp, Exp(x))
TUNABLEOP_UNARY(LogOf, unary_log, Log(x))
TUNABLEOP_UNARY(SinOf, unary_sin, Sin(x))
TUNABLEOP_UNARY(CosOf, unary_cos, Cos(x))
TUNABLEOP_UNARY(FloorOf, unary_floor, Floor(x))
TUNABLEOP_UNARY(CeilOf, unary_ceil, Ceil(x))
TUNABLEOP_UNARY(Round, unary_round, RoundEven(x))
TUNABLEOP_UNARY(LeakyRelu, unary_leaky_relu, x < 0 ? ALPHA * x : x)
TUNABLEOP_UNARY(Elu, unary_elu, x < 0 ? ALPHA * (Exp(x) - static_cast<Math>(1)) : x)
TUNABLEOP_UNARY(Softplus, unary_softplus, SoftPlus(x))
TUNABLEOP_UNARY(HardSigmoid, unary_hard_sigmoid, HardLogistic(x, ALPHA, BETA))
TUNABLEOP_UNARY(HardSwish, unary_hard_swish, x* HardLogistic(x, ALPHA, BETA))
TUNABLEOP_UNARY(Clip, unary_clip, Between(x, ALPHA, BETA))
TUNABLEOP_UNARY(Mish, unary_mish, x* Tanh(SoftPlus(x)))
TUNABLEOP_UNARY(Celu, unary_celu, x < 0 ? ALPHA * (Exp(x / ALPHA) - static_cast<Math>(1)) : x)
TUNABLEOP_UNARY(Selu, unary_selu, BETA*(x > 0 ? x : ALPHA * (Exp(x) - static_cast<Math>(1))))
TUNABLEOP_UNARY(Softsign, unary_softsign, x / (static_cast<Math>(1) + Magnitude(x)))
TUNABLEOP_UNARY(ThresholdedRelu, unary_thresholded_relu, x > ALPHA ? x : static_cast<Math>(0))
#undef ALPHA
#undef BETA

#else
TUNABLEOP_UNARY(Clip, unary_clip,
                static_cast<Math>(x<args.low ? args.low : x> args.high ? args.high : x))
#endif

// Of the smallest integer there is no negative: it stays.
TUNABLEOP_DEVICE Math Minus(Math x) { return static_cast<Math>(-static_cast<WrappingOf<Math>>(x)); }
template <class M>
TUNABLEOP_DEVICE M Absolute(M x) {
  if constexpr (kFloating<M>) {
    return Magnitude(x);
  } else {
    return x < 0 ? Minus(x) : x;
  }
}

TUNABLEOP_UNARY(Neg, unary_neg, Minus(x))
TUNABLEOP_UNARY(Abs, unary_abs, Absolute(x))
TUNABLEOP_UNARY(Relu, unary_relu, x < 0 ? static_cast<Math>(0) : x)
TUNABLEOP_UNARY(Sign, unary_sign,
                IsNan(x) ? x : static_cast<Math>((x > 0 ? 1 : 0) - (x < 0 ? 1 : 0)))

#endif

#undef TUNABLEOP_UNARY

}  // namespace tunableop::device::TUNABLEOP_MODULE
