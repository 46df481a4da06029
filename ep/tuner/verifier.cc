#include "tuner/verifier.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tuner/elements.h"
#include "tuner/float_mode.h"
#include "tuner/row_runs.h"
#include "tuner/versions.h"

namespace tunableop {
namespace {

// How many of `count` elements are farther apart than relative * columns + output * |trusted|.
TUNABLEOP_VERSIONS
int64_t CountFar(const double* got, const double* trusted, const double* columns, int64_t count,
                 double relative, double output) noexcept {
  constexpr double kLargest = std::numeric_limits<double>::max();
  int64_t far = 0;  // no early exit: vectorises. NaN and infinity count as far.
  for (int64_t j = 0; j < count; ++j) {
    const double bound = relative * columns[j] + output * std::abs(trusted[j]);
    const double difference = std::abs(got[j] - trusted[j]);
    far += difference <= std::min(bound, kLargest) ? 0 : 1;
  }
  return far;
}

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
  const RowRuns runs(p);
  std::vector<Worst> found(runs.count());
  runs.ForEach(executor_, [&](size_t run, int64_t begin, int64_t end) {
    const KeepSubnormals mode;
    for (int64_t row = begin; row < end; ++row) CompareRow(scratch, row, found[run]);
  });
  Worst worst;
  for (const Worst& one : found) {  // in order: the same one whoever computed it
    if (one.error > worst.error) worst = one;
  }
  Verdict verdict{worst.error <= 1.0, worst.error, {}};
  if (!verdict.right) {
    verdict.reason = "wrong answer: " + Describe({worst.row / p.m, worst.row % p.m, worst.column}) +
                     ": got " + Number(worst.got) + ", " + trusted_name_ + " (verified) got " +
                     Number(worst.trusted) + " (tolerance " + Short(worst.tolerance) + ")";
  }
  return verdict;
}

void Verifier::CompareRow(const Scratch& scratch, int64_t row, Worst& worst) const noexcept {
  const Problem& p = problem_;
  const double alpha = std::abs(static_cast<double>(operands_.alpha));
  const double beta = std::abs(static_cast<double>(operands_.beta));
  const bool biased = p.epilogue == Epilogue::kBias || p.epilogue == Epilogue::kBiasRelu ||
                      p.epilogue == Epilogue::kBiasGelu;
  const int64_t b = row / p.m;
  const int64_t i = row % p.m;
  const double norm = norms_.rows[static_cast<size_t>(p.stride_a == 0 ? i : row)];
  const double* columns = norms_.columns.data() + (p.stride_b == 0 ? 0 : b * p.n);
  const int64_t at = b * p.stride_c + i * p.ldc;
  const int64_t dense = row * p.n;
  if (RowIsClose(scratch.c(), at, dense, alpha * norm, columns)) return;
  for (int64_t j = 0; j < p.n; ++j) {
    const double got = LoadElement(scratch.c(), p.c_type, at + j);
    const double trusted = LoadElement(trusted_.data(), p.c_type, dense + j);
    const double product = norm * columns[j];
    double addend = 0.0;
    if (beta != 0.0) addend += beta * std::abs(LoadElement(operands_.c, p.c_type, at + j));
    if (biased) addend += std::abs(LoadElement(operands_.bias, p.c_type, j));
    const double magnitude = (alpha == 0.0 ? 0.0 : alpha * product) + addend;
    if (std::isinf(tolerance_.Of(0.0, product))) continue;  // may overflow, or not
    if (alpha == 0.0 && !std::isfinite(product)) continue;  // 0 * NaN, or left out
    // Infinity or NaN is a matter of the order of summing (see Tolerance::Error).
    if (!std::isfinite(trusted) && !std::isfinite(got)) continue;
    // Activation or not, the values differ as before it, by the steepest slope at most, which the
    // tolerance contains. One of two close to the largest number may have become infinite.
    const double tolerance =
        tolerance_.Between(std::isinf(trusted) ? got : trusted, magnitude, addend);
    double error = tolerance_.Error(trusted, tolerance, got);
    // relu and gelu may give NaN or 0 for NaN: whichever of the two was first.
    if (std::isnan(got) && trusted == 0.0) error = tolerance_.Error(got, tolerance, trusted);
    if (error > worst.error) worst = {error, row, j, got, trusted, tolerance};
  }
}

bool Verifier::RowIsClose(const void* c, int64_t at, int64_t dense, double row_factor,
                          const double* columns) const noexcept {
  constexpr int64_t kPiece = 256;  // both fit the first-level cache
  std::array<double, kPiece> got;
  std::array<double, kPiece> trusted;
  const double relative = 2.0 * tolerance_.relative() * row_factor;
  // Where C has few bits, an ulp of it is more than all that sums may differ by.
  const double output = 2.0 * tolerance_.output();
  const DataType type = problem_.c_type;
  for (int64_t begin = 0; begin < problem_.n; begin += kPiece) {
    const int64_t count = std::min(kPiece, problem_.n - begin);
    LoadElements(c, type, at + begin, count, got.data());
    LoadElements(trusted_.data(), type, dense + begin, count, trusted.data());
    if (CountFar(got.data(), trusted.data(), columns + begin, count, relative, output) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace tunableop
