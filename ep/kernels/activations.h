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

}  // namespace tunableop::device
