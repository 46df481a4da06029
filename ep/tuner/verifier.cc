#include "tuner/verifier.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "tuner/elements.h"
#include "tuner/float_mode.h"

namespace tunableop {
namespace {

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}
std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2g", value);
  return text;
}

}  // namespace

void Verifier::Prepare(Scratch& scratch) const {
  if (operands_.beta == 0.0F) {
    scratch.PoisonC();
  } else {
    scratch.FillC(operands_.c);
  }
}

std::string Verifier::Describe(const Place& place) const {
  std::string text;
  if (problem_.batch > 1) text = "batch item " + std::to_string(place.batch) + ", ";
  return text + "row " + std::to_string(place.row) + ", column " + std::to_string(place.column);
}

Verifier::Verdict Verifier::Check(Scratch& scratch, const std::string& name) {
  const KeepSubnormals mode;
  if (operands_.beta == 0.0F) {
    Place place;
    if (scratch.FindPoison(executor_, place.batch, place.row, place.column)) {
      scratch.PoisonAndCheckGaps();
      return {false, HUGE_VAL, "wrong answer: " + Describe(place) + " was not written"};
    }
  }
  if (!reference_) reference_.emplace(problem_, operands_, executor_, budget_);
  const Reference::Outcome outcome = reference_->Compare(scratch.c());
  Verdict verdict{outcome.error <= 1.0, outcome.error, {}};
  if (!verdict.right) {
    verdict.reason = "wrong answer: " + Describe(outcome.place) + ": got " + Number(outcome.got) +
                     ", expected " + Number(outcome.expected) + " (tolerance " +
                     Short(outcome.tolerance) + ")";
  } else if (!trusted_.empty()) {
    const Verdict all = CompareWithTrusted(scratch);
    verdict.right = all.right;
    verdict.reason = all.reason;
    verdict.error = std::max(verdict.error, all.error);
  }
  const size_t dense = static_cast<size_t>(problem_.batch) * static_cast<size_t>(problem_.m) *
                       static_cast<size_t>(problem_.n) * SizeOf(problem_.c_type);
  std::vector<char> copy;
  const bool first = verdict.right && trusted_.empty() && dense <= spare_bytes_;
  if (first) {
    copy.resize(dense);
    scratch.CopyC(executor_, copy.data());
  }
  if (!scratch.PoisonAndCheckGaps() && verdict.right) {
    return {false, HUGE_VAL,
            "wrong answer: wrote outside of C (n = " + std::to_string(problem_.n) +
                ", ldc = " + std::to_string(problem_.ldc) + ")"};
  }
  if (first) {
    trusted_ = std::move(copy);
    trusted_name_ = name;
  }
  return verdict;
}

// Both are within the tolerance of the exact result, so they differ by two of them at most. Where
// the sum of magnitudes is not known, Cauchy and Schwarz bound it.
Verifier::Verdict Verifier::CompareWithTrusted(const Scratch& scratch) {
  const Problem& p = problem_;
  if (norms_.columns.empty()) {
    norms_ = Reference::ComputeNorms(p, operands_, executor_, 3.0 * budget_);
  }
  const double alpha = std::abs(static_cast<double>(operands_.alpha));
  const double beta = std::abs(static_cast<double>(operands_.beta));
  const bool biased = p.epilogue == Epilogue::kBias || p.epilogue == Epilogue::kBiasRelu ||
                      p.epilogue == Epilogue::kBiasGelu;
  Verdict worst;
  for (int64_t b = 0; b < p.batch; ++b) {
    const double* rows = norms_.rows.data() + (p.stride_a == 0 ? 0 : b * p.m);
    const double* columns = norms_.columns.data() + (p.stride_b == 0 ? 0 : b * p.n);
    for (int64_t i = 0; i < p.m; ++i) {
      const int64_t at = b * p.stride_c + i * p.ldc;
      const int64_t dense = (b * p.m + i) * p.n;
      if (p.c_type == DataType::kFloat32 &&
          RowIsClose(static_cast<const float*>(scratch.c()) + at,
                     reinterpret_cast<const float*>(trusted_.data()) + dense, alpha * rows[i],
                     columns)) {
        continue;
      }
      for (int64_t j = 0; j < p.n; ++j) {
        const double got = LoadElement(scratch.c(), p.c_type, at + j);
        const double trusted = LoadElement(trusted_.data(), p.c_type, dense + j);
        const double product = rows[i] * columns[j];
        double magnitude = alpha == 0.0 ? 0.0 : alpha * product;
        if (beta != 0.0) {
          magnitude += beta * std::abs(LoadElement(operands_.c, p.c_type, at + j));
        }
        if (biased) magnitude += std::abs(LoadElement(operands_.bias, p.c_type, j));
        if (std::isinf(tolerance_.Of(0.0, product))) continue;  // may overflow, or not
        if (alpha == 0.0 && !std::isfinite(product)) continue;  // 0 * NaN, or left out
        // Infinity or NaN is a matter of the order of summing (see Tolerance::Error).
        if (!std::isfinite(trusted) && !std::isfinite(got)) continue;
        // Activation or not, the values differ as before it, by the steepest slope at most, which
        // the tolerance contains; gelu's own error is relative to what went in.
        const double size = std::max(std::abs(trusted), std::min(magnitude, 1e300));
        const double tolerance = 2.0 * tolerance_.Of(std::isfinite(size) ? size : 0.0, magnitude);
        double error = tolerance_.Error(trusted, tolerance, got);
        // relu and gelu may give NaN or 0 for NaN: whichever of the two was first.
        if (std::isnan(got) && trusted == 0.0) error = tolerance_.Error(got, tolerance, trusted);
        if (error <= worst.error) continue;
        worst.error = error;
        if (error <= 1.0) continue;
        worst.right = false;
        worst.reason = "wrong answer: " + Describe({b, i, j}) + ": got " + Number(got) + ", " +
                       trusted_name_ + " (verified) got " + Number(trusted) + " (tolerance " +
                       Short(tolerance) + ")";
      }
    }
  }
  return worst;
}

bool Verifier::RowIsClose(const float* got, const float* trusted, double row_factor,
                          const double* columns) const noexcept {
  const double relative = 2.0 * tolerance_.relative();
  int64_t far = 0;  // no early exit: vectorises. NaN counts as far.
  for (int64_t j = 0; j < problem_.n; ++j) {
    const double difference =
        std::abs(static_cast<double>(got[j]) - static_cast<double>(trusted[j]));
    far += difference <= relative * row_factor * columns[j] ? 0 : 1;
  }
  return far == 0;
}

}  // namespace tunableop
