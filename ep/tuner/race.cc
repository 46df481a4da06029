#include "tuner/race.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>
#include <random>

namespace tunableop {
namespace {

constexpr double kSampleMs = 0.020;
constexpr double kLuckOfSwitch = 0.005;  // over all looks and challengers
constexpr double kLuckOfDropping = 0.05;
constexpr std::array<size_t, 4> kLooks = {24, 96, 384, 1024};
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

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100.0 * share);
  return text;
}

class Race {
 public:
  Race(std::span<Lane> lanes, size_t incumbent, const RaceOptions& options, const NowFn& now)
      : lanes_(lanes), incumbent_(incumbent), options_(options), now_(now), random_(options.seed) {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (!lanes_[i].racing) continue;
      order_.push_back(i);
      if (i != incumbent_) ++challengers_;
    }
  }

  Election Run() {
    size_t rounds = 0;
    for (const size_t look : kLooks) {
      const size_t until = std::min(look, options_.max_rounds);
      while (rounds < until && Round()) ++rounds;
      if (rounds < until) break;  // out of time
      if (incumbent_ == kNoLane || Challenger() != kNoLane) break;
      DropHopeless();
      if (order_.size() < 2) break;
    }
    return Elect();
  }

 private:
  bool OutOfTime(double expected_ms) const {
    return now_() + static_cast<int64_t>(expected_ms * 1e6) >= options_.deadline_ns;
  }

  // False when time is up or nobody is left to race.
  bool Round() {
    if (order_.empty() || (incumbent_ != kNoLane && order_.size() < 2)) return false;
    if (options_.before_round) options_.before_round();
    std::shuffle(order_.begin(), order_.end(), random_);
    const std::vector<size_t> round = order_;
    std::vector<std::pair<size_t, double>> samples;
    for (const size_t i : round) {
      Lane& lane = lanes_[i];
      const double ms = Sample(lane);
      if (ms < 0.0 && lane.failure.ok()) return Partial(samples);
      if (ms < 0.0) {
        Leave(i);
        if (i == incumbent_) incumbent_ = kNoLane;
        continue;
      }
      samples.emplace_back(i, ms);
    }
    for (const auto& [i, ms] : samples) lanes_[i].ms.push_back(ms);
    return true;
  }

  // A round that was cut short would leave the pairs of the others misaligned. It counts only where
  // there is no other.
  bool Partial(const std::vector<std::pair<size_t, double>>& samples) {
    for (const auto& [i, ms] : samples) {
      if (lanes_[i].ms.empty()) lanes_[i].ms.push_back(ms);
    }
    return false;
  }

  // Milliseconds of a call, or -1: out of time, or failed.
  double Sample(Lane& lane) {
    const int calls = CallsPerSample(lane.probe_ms);
    if (OutOfTime(lane.probe_ms)) return -1.0;
    const int64_t begin = now_();
    int64_t end = begin;
    int done = 0;
    while (done < calls) {
      if (Status status = lane.call(); !status.ok()) {
        lane.failure = std::move(status);
        return -1.0;
      }
      ++done;
      end = now_();
      if (end >= options_.deadline_ns) break;
    }
    return static_cast<double>(end - begin) * 1e-6 / done;
  }

  void Leave(size_t lane) {
    lanes_[lane].racing = false;
    std::erase(order_, lane);
  }

  bool IsFasterBeyondLuck(const Lane& lane) const {
    const Lane& incumbent = lanes_[incumbent_];
    const double share =
        kLuckOfSwitch / static_cast<double>(kLooks.size()) / static_cast<double>(challengers_);
    return ChanceOfLuck(lane.ms, incumbent.ms) <= share;
  }

  bool IsStillAhead(const Lane& lane) const {
    const std::vector<double>& mine = lane.ms;
    const std::vector<double>& theirs = lanes_[incumbent_].ms;
    const size_t count = std::min(mine.size(), theirs.size());
    if (count < kFewestForQuarter) return true;
    const size_t quarter = count / 4;
    return Median(std::span(mine).last(quarter)) < Median(std::span(theirs).last(quarter));
  }

  bool Beats(const Lane& lane) const {
    return Median(lane.ms) <= (1.0 - options_.min_gain) * Median(lanes_[incumbent_].ms) &&
           IsFasterBeyondLuck(lane) && IsStillAhead(lane);
  }

  std::vector<size_t> ByMedian() const {
    std::vector<size_t> lanes;
    for (const size_t i : order_) {
      if (i != incumbent_ && !lanes_[i].ms.empty()) lanes.push_back(i);
    }
    std::sort(lanes.begin(), lanes.end(), [&](size_t a, size_t b) {
      const double x = Median(lanes_[a].ms);
      const double y = Median(lanes_[b].ms);
      return x != y ? x < y : a < b;
    });
    return lanes;
  }

  // The fastest lane that beats the incumbent.
  size_t Challenger() const {
    if (incumbent_ == kNoLane) return kNoLane;
    for (const size_t i : ByMedian()) {
      if (Beats(lanes_[i])) return i;
    }
    return kNoLane;
  }

  void DropHopeless() {
    const std::vector<size_t> lanes = ByMedian();
    for (const size_t i : lanes) {
      // The incumbent, sped up by min_gain, against the lane.
      const double luck =
          ChanceOfLuck(lanes_[incumbent_].ms, lanes_[i].ms, 1.0 / (1.0 - options_.min_gain));
      if (luck <= kLuckOfDropping) Leave(i);
    }
  }

  Election Elect() const {
    const std::vector<size_t> lanes = ByMedian();
    if (incumbent_ == kNoLane) {
      if (lanes.empty()) return {kNoLane, "nothing was measured"};
      return {lanes.front(), "the fastest of those that are right"};
    }
    const double base = Median(lanes_[incumbent_].ms);
    if (base == 0.0) return {incumbent_, "the default: the budget ended before a round was run"};
    if (const size_t winner = Challenger(); winner != kNoLane) {
      return {winner, Percent(1.0 - Median(lanes_[winner].ms) / base) + " faster than the default"};
    }
    if (lanes.empty()) {
      return {incumbent_,
              "the default: no candidate can be " + Percent(options_.min_gain) + " faster"};
    }
    const Lane& best = lanes_[lanes.front()];
    const double gain = 1.0 - Median(best.ms) / base;
    if (gain < options_.min_gain) {
      return {incumbent_, "the default: no candidate is faster by " + Percent(options_.min_gain)};
    }
    if (!IsFasterBeyondLuck(best)) {
      return {incumbent_, "the default: a lead of " + Percent(gain) + " in " +
                              std::to_string(best.ms.size()) + " rounds may be noise"};
    }
    return {incumbent_, "the default: a lead of " + Percent(gain) + " did not last"};
  }

  std::span<Lane> lanes_;
  size_t incumbent_;
  const RaceOptions& options_;
  const NowFn& now_;
  std::mt19937_64 random_;
  std::vector<size_t> order_;  // lanes still racing
  size_t challengers_ = 0;     // at the start: those that left were given their chance
};

}  // namespace

double Median(std::span<const double> values) {
  if (values.empty()) return 0.0;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  if (sorted.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(sorted.begin(), middle)) / 2.0;
}

int CallsPerSample(double ms_per_call) {
  if (ms_per_call >= kSampleMs) return 1;
  return static_cast<int>(std::ceil(kSampleMs / std::max(ms_per_call, kSampleMs / 1000.0)));
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

Election RunRace(std::span<Lane> lanes, size_t incumbent, const RaceOptions& options,
                 const NowFn& now) {
  return Race(lanes, incumbent, options, now).Run();
}

}  // namespace tunableop
