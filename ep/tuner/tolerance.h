// How far a right kernel may be from the exact result.
//
// With u the unit roundoff of the accumulator, S = |alpha| * sum |a||b| + |beta * c| + |bias|:
//
//   |got - exact| <= 2 u (sqrt(k) + k / 8 + 8) S  +  2 r S  +  v |exact|  +  (k + 4) * smallest
//
// - Rounding errors of a sum of k products grow as sqrt(k) u S when they are independent (Higham
//   and Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput.
//   41(5), 2019), but all point the same way when the operands are constant: adding the same number
//   again and again in order reaches 0.16 k u S, hence 2 * k / 8. The worst case, k u S, is left
//   out: it would hide a kernel that computes with fewer bits than it should.
// - r is what the precision mode rounds operands to: 0 (exact), 2^-8 (bf16), 2^-10 (tf32, whose
//   hardware may truncate).
// - v: the rounding to C's type, two units of it. Where something is added to the product, half of
//   that once more, of |exact| + |beta * c| + |bias|: kernels may round the product to C's type
//   before they add (cublasLt's with split-K do, in 16 bits; so do MatMul and Add as two nodes).
// - The last term is for kernels that flush subnormal products to zero.
// - relu passes an error on, gelu magnifies it by 1.13 at most (its steepest slope) and adds
//   that of its own erf, 16 u |x|.
//
// A sum whose partial sums may exceed the accumulator's range depends on the order of summing:
// every answer is accepted then. NaN must meet NaN, and infinity the same infinity or NaN (finite
// products beside an infinite one may overflow to its opposite), but for relu and gelu, which may
// turn NaN into 0 (a comparison with NaN is false; -inf * 0 has two readings).
#pragma once

#include "gemm/problem.h"
#include "tuner/elements.h"

namespace tunableop {

class Tolerance {
 public:
  explicit Tolerance(const Problem& problem) noexcept;

  // `exact`: before the epilogue. `magnitude`: S above; `addend`: |beta * c| + |bias|, which is
  // part of it. Infinite: any answer is right.
  double Of(double exact, double magnitude, double addend = 0.0) const noexcept;

  // |got - expected| / tolerance: at most 1 when right, infinite when one is not a number and the
  // other is. `expected` is after the epilogue.
  double Error(double expected, double tolerance, double got) const noexcept;

  // How far two right answers may be apart, one of which is `trusted`, after the epilogue.
  // `magnitude`: a bound of S. Grows with both, and with the addend.
  double Between(double trusted, double magnitude, double addend = 0.0) const noexcept;

  // The factor of the magnitude alone, and that of the value.
  double relative() const noexcept { return relative_; }
  double output() const noexcept { return output_; }

  // How operands count in a magnitude.
  Subnormals subnormals() const noexcept { return {smallest_operand_, 1.0 / relative_}; }

  // The problem's activation.
  double Activate(double x) const noexcept;

 private:
  double relative_;  // of the magnitude
  double output_;    // of the exact value
  double smallest_;  // absolute
  double smallest_operand_;
  double largest_sum_;     // magnitudes above it may overflow
  double largest_result_;  // exact values above it may become infinite in C's type
  bool relu_;
  bool gelu_;
};

}  // namespace tunableop
