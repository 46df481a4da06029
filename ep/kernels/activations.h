// Functions between the layers of a network. Math: float or double.
#pragma once

#include "kernels/portable.h"

namespace tunableop::device {

// exp(-|x|) cannot overflow, and the quotient loses nothing where x is large and negative.
template <class Math>
TUNABLEOP_DEVICE Math Logistic(Math x) {
  const Math e = Exp(-Magnitude(x));
  return (x < 0 ? e : static_cast<Math>(1)) / (static_cast<Math>(1) + e);
}

// For results that are rounded to halves: two instructions that know about 22 bits, and no case of
// their own for what is small or large.
TUNABLEOP_DEVICE float QuickPowerOfTwo(float x) {
#if defined(TUNABLEOP_ON_CUDA)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#elif defined(TUNABLEOP_ON_HIP)
  return exp2f(x);
#else
  return Exp(x * 0.69314718055994530942F);
#endif
}
TUNABLEOP_DEVICE float QuickInverse(float x) {
#if defined(TUNABLEOP_ON_CUDA)
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
#elif defined(TUNABLEOP_ON_HIP)
  return __builtin_amdgcn_rcpf(x);
#else
  return 1.0F / x;
#endif
}

// x / (1 + exp(-x)) is x * this.
TUNABLEOP_DEVICE float QuickLogistic(float x) {
  return QuickInverse(1.0F + QuickPowerOfTwo(-1.44269504088896340736F * x));
}

// erfc by Abramowitz and Stegun's 7.1.26: to 1e-6 of the result where x > -1, to 5e-4 where x > -4,
// and to 4e-7 everywhere.
TUNABLEOP_DEVICE float QuickGeluByErf(float x) {
  const float size = Magnitude(x);
  const float t = QuickInverse(1.0F + 0.23164188775F * size);
  const float series =
      t * (0.127414796F +
           t * (-0.142248368F + t * (0.7107068705F + t * (-0.7265760135F + t * 0.5307027145F))));
  const float tail = series * QuickPowerOfTwo(-0.72134752044448170368F * x * x);
  const float most = size < 1e4F ? size : 1e4F;  // not infinite times 0
  return (x < 0.0F ? 0.0F : x) - most * tail;
}

TUNABLEOP_DEVICE float QuickGeluByTanh(float x) {
  const float inner = 0.79788456080286535588F * (x + 0.044715F * x * x * x);
  return x * QuickLogistic(2.0F * inner);
}

template <class Math>
TUNABLEOP_DEVICE Math GeluByErf(Math x) {
  const Math half = static_cast<Math>(0.5);
  return half * x * (static_cast<Math>(1) + Erf(x * static_cast<Math>(0.70710678118654752440)));
}

template <class Math>
TUNABLEOP_DEVICE Math GeluByTanh(Math x) {
  const Math inner =
      static_cast<Math>(0.79788456080286535588) * (x + static_cast<Math>(0.044715) * x * x * x);
  return static_cast<Math>(0.5) * x * (static_cast<Math>(1) + Tanh(inner));
}

// The same for results of type T.
template <class T, class Math>
TUNABLEOP_DEVICE Math GeluByErfAs(Math x) {
  if constexpr (sizeof(T) == 2) {
    return QuickGeluByErf(x);
  } else {
    return GeluByErf(x);
  }
}
template <class T, class Math>
TUNABLEOP_DEVICE Math GeluByTanhAs(Math x) {
  if constexpr (sizeof(T) == 2) {
    return QuickGeluByTanh(x);
  } else {
    return GeluByTanh(x);
  }
}
template <class T, class Math>
TUNABLEOP_DEVICE Math LogisticAs(Math x) {
  if constexpr (sizeof(T) == 2) {
    return QuickLogistic(x);
  } else {
    return Logistic(x);
  }
}

}  // namespace tunableop::device
