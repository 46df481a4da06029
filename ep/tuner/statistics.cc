#include "tuner/statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace tunableop {
namespace {

constexpr size_t kFewestForRanks = 12;
constexpr size_t kFewestForQuarter = 16;

double UpperNormal(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }

// Upper tail of Student's t for an even number of degrees of freedom, in closed form (Abramowitz
// and Stegun 26.7.4), which is all that two samples of equal size need.
double UpperStudent(double t, int even_degrees) {
  const double theta = std::atan(std::abs(t) / std::sqrt(static_cast<double>(even_degrees)));
  const double cosine2 = std::cos(theta) * std::cos(theta);
  double term = 1.0;
  double sum = 1.0;
  for (int i = 2; i <= even_degrees - 2; i += 2) {
    term *= cosine2 * static_cast<double>(i - 1) / static_cast<double>(i);
    sum += term;
  }
  const double upper = 0.5 * (1.0 - std::sin(theta) * sum);
  return t >= 0.0 ? upper : 1.0 - upper;
}

// One-sided Wilcoxon signed-rank test that differences tend to be below zero: normal
// approximation with continuity and tie corrections; zeros are dropped.
double SignedRankTest(std::vector<double> differences) {
  std::erase(differences, 0.0);
  const auto n = static_cast<double>(differences.size());
  if (differences.size() < 6) return 1.0;
  std::sort(differences.begin(), differences.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  double below = 0.0;
  double ties = 0.0;
  for (size_t i = 0; i < differences.size();) {
    size_t end = i;
    while (end < differences.size() && std::abs(differences[end]) == std::abs(differences[i])) {
      ++end;
    }
    const double rank = static_cast<double>(i + 1 + end) / 2.0;
    const auto size = static_cast<double>(end - i);
    ties += size * size * size - size;
    for (; i < end; ++i) {
      if (differences[i] < 0.0) below += rank;
    }
  }
  const double mean = n * (n + 1.0) / 4.0;
  const double variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0;
  return UpperNormal((below - mean - 0.5) / std::sqrt(variance));
}

// One-sided two-sample t-test that the mean of x is below that of y; equal sizes.
double StudentTest(std::span<const double> x, std::span<const double> y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double squares = 0.0;
  for (const double v : x) squares += (v - mean_x) * (v - mean_x);
  for (const double v : y) squares += (v - mean_y) * (v - mean_y);
  if (squares == 0.0) return mean_x < mean_y ? 0.0 : 1.0;
  const double error = std::sqrt(squares / (2.0 * n - 2.0) * 2.0 / n);
  return UpperStudent((mean_y - mean_x) / error, 2 * static_cast<int>(x.size()) - 2);
}

}  // namespace

double Median(std::span<const double> values) {
  if (values.empty()) return 0.0;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (sorted.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(sorted.begin(), middle)) / 2.0;
}

double ChanceOfLuck(std::span<const double> challenger, std::span<const double> incumbent,
                    double factor) {
  const size_t count = std::min(challenger.size(), incumbent.size());
  if (count < 3) return 1.0;
  std::vector<double> mine;
  std::vector<double> theirs;
  std::vector<double> differences;
  for (size_t i = 0; i < count; ++i) {
    // A clock that saw no time pass gives 0: as little as a picosecond will do.
    mine.push_back(std::log(std::max(challenger[i], 1e-9)));
    theirs.push_back(std::log(std::max(incumbent[i], 1e-9) * factor));
    differences.push_back(mine.back() - theirs.back());
  }
  return count < kFewestForRanks ? StudentTest(mine, theirs)
                                 : SignedRankTest(std::move(differences));
}

bool IsStillAhead(std::span<const double> challenger, std::span<const double> incumbent) {
  const size_t count = std::min(challenger.size(), incumbent.size());
  if (count < kFewestForQuarter) return true;
  const size_t quarter = count / 4;
  return Median(challenger.last(quarter)) < Median(incumbent.last(quarter));
}

bool WinsEveryTurn(std::span<const double> challenger, std::span<const double> incumbent,
                   double min_gain) {
  if (challenger.empty() || incumbent.empty()) return false;
  const double slowest = *std::max_element(challenger.begin(), challenger.end());
  return slowest > 0.0 &&
         slowest <= (1.0 - min_gain) * *std::min_element(incumbent.begin(), incumbent.end());
}

}  // namespace tunableop
