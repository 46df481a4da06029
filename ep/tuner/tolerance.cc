#include "tuner/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tuner/elements.h"

namespace tunableop {
namespace {

constexpr double kGeluSteepest = 1.13;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double OperandRounding(Precision precision) noexcept {
  switch (precision) {
    case Precision::kBf16:
      return 0x1p-8;
    case Precision::kTf32:
      return 0x1p-10;
    case Precision::kExact:
      break;
  }
  return 0.0;
}

}  // namespace

Tolerance::Tolerance(const Problem& p) noexcept {
  const DataType accumulator = AccumulatorOf(p);
  const double u = UnitRoundoff(accumulator);
  const auto k = static_cast<double>(p.k);
  relu_ = p.epilogue == Epilogue::kRelu || p.epilogue == Epilogue::kBiasRelu;
  gelu_ = p.epilogue == Epilogue::kGelu || p.epilogue == Epilogue::kBiasGelu;
  relative_ = 2.0 * u * (std::sqrt(k) + k / 8.0 + 8.0) + 2.0 * OperandRounding(p.precision);
  // The fp64 reference of an fp64 problem has rounding errors of its own.
  if (accumulator == DataType::kFloat64) relative_ *= 2.0;
  output_ = 2.0 * UnitRoundoff(p.c_type);
  if (gelu_) {
    relative_ *= kGeluSteepest;
    output_ += 16.0 * u;
  }
  smallest_ = (k + 4.0) * SmallestNormal(accumulator) + 2.0 * SmallestNormal(p.c_type);
  smallest_operand_ = std::max(SmallestNormal(p.a_type), SmallestNormal(p.b_type));
  largest_sum_ = LargestValue(accumulator) / 4.0;
  largest_result_ = LargestValue(p.c_type);
}

double Tolerance::Of(double exact, double magnitude, double addend) const noexcept {
  if (!std::isfinite(magnitude)) return smallest_;  // NaN or infinity in the operands: see Error
  if (magnitude > largest_sum_) return kInfinity;
  double tolerance = relative_ * magnitude + output_ * std::abs(exact) + smallest_;
  if (addend > 0.0) tolerance += 0.5 * output_ * (std::abs(exact) + addend);
  return std::abs(exact) + tolerance >= largest_result_ ? kInfinity : tolerance;
}

double Tolerance::Between(double trusted, double magnitude, double addend) const noexcept {
  // Either is within its tolerance of the exact value, so that this exceeds the trusted one by that
  // tolerance at most; 1.01 is more than 1 / (1 - output_) in any type. Gelu's own error is
  // relative to what went in, of which only the magnitude is known.
  const double size = gelu_ ? std::max(std::abs(trusted), std::min(magnitude, 1e300))
                            : 1.01 * (std::abs(trusted) + relative_ * magnitude + smallest_);
  return 2.0 * Of(std::isfinite(size) ? size : 0.0, magnitude, addend);
}

double Tolerance::Error(double expected, double tolerance, double got) const noexcept {
  if (std::isinf(tolerance)) return 0.0;
  if (std::isnan(expected)) {
    return std::isnan(got) || ((relu_ || gelu_) && got == 0.0) ? 0.0 : kInfinity;
  }
  // Beside an infinite product, finite ones may overflow to the other infinity: then it is NaN.
  if (std::isnan(got)) return std::isinf(expected) ? 0.0 : kInfinity;
  if (std::isinf(expected) || std::isinf(got)) return got == expected ? 0.0 : kInfinity;
  return std::abs(got - expected) / tolerance;
}

double Tolerance::Activate(double x) const noexcept {
  if (relu_) return x < 0.0 ? 0.0 : x;  // keeps NaN
  if (gelu_) return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
  return x;
}

}  // namespace tunableop
