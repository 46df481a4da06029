#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tuner/device_tuning.h"
#include "tuner/statistics.h"

namespace tunableop {
namespace {

constexpr size_t kPairs = 24;        // of samples, one of either kernel
constexpr size_t kFewestPairs = 3;   // that say anything
constexpr size_t kEnoughPairs = 12;  // when they are clear
constexpr double kLoss = 0.01;       // of the base's time, that a winner may lose
constexpr double kLuck = 0.05;
// Empty caches cost a call about as long as filling them takes, at most. This many times what it
// takes to overwrite twice of them, and they make less than kLoss of a difference.
constexpr double kLongCall = 50.0;

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100.0 * share);
  return text;
}

}  // namespace

std::string DeviceTuning::LosesInOtherCaches(const Contender& winner, const Contender& base) {
  const bool cold = caches_ == Caches::kCold;
  const Caches other = cold ? Caches::kWarm : Caches::kCold;
  const char* const where = cold ? "warm caches" : "cold caches";
  std::vector<double> mine;
  std::vector<double> theirs;
  const auto sample = [&](const Contender& contender, std::vector<double>& samples) {
    double ms = -1.0;
    const Status status = sampler_.Take(CallOf(contender, other), 1, BestSample(contender), ms);
    if (!Accept(contender, status)) return false;
    if (ms >= 0.0) samples.push_back(ms);
    return ms >= 0.0;
  };
  while (mine.size() < kPairs) {
    const bool first = mine.size() % 2 == 0;  // each is first in every other pair
    if (!(first ? sample(winner, mine) && sample(base, theirs)
                : sample(base, theirs) && sample(winner, mine))) {
      break;
    }
    if (mine.size() == kEnoughPairs && (ChanceOfLuck(mine, theirs, 1.0 + kLoss) <= kLuck ||
                                        ChanceOfLuck(theirs, mine) <= kLuck / 10.0)) {
      break;
    }
  }
  const size_t pairs = std::min(mine.size(), theirs.size());
  if (pairs < kFewestPairs) return std::string("no time to compare it in ") + where;
  mine.resize(pairs);
  theirs.resize(pairs);
  const double loss = Median(mine) / Median(theirs) - 1.0;
  if (loss <= kLoss || ChanceOfLuck(theirs, mine) > kLuck) return {};
  return Percent(loss) + " slower in " + where;
}

void DeviceTuning::CheckOtherCaches(const std::vector<size_t>& racing, Election& election) {
  if (election.winner == kNoLane || election.winner == 0 || !timer_->CanBeCold()) return;
  const Contender& base = contenders()[racing.front()];
  if (!base.right || !base.raced) return;
  double fill_ms = 0.0;
  if (!Expect(timer_->FillMs(fill_ms))) return;
  if (Median(base.samples) > kLongCall * fill_ms) return;

  std::vector<size_t> lanes;  // that may win, the fastest first
  for (size_t i = 1; i < racing.size(); ++i) {
    const Contender& contender = contenders()[racing[i]];
    if (contender.right && contender.raced &&
        (i == election.winner ||
         Beats(contender.samples, base.samples, options_.min_gain, racing.size() - 1))) {
      lanes.push_back(i);
    }
  }
  std::stable_sort(lanes.begin(), lanes.end(), [&](size_t a, size_t b) {
    return Median(contenders()[racing[a]].samples) < Median(contenders()[racing[b]].samples);
  });
  const std::string name = field_.NameOf(base);
  std::string lost;  // what is known against those that were faster
  for (const size_t i : lanes) {
    const Contender& contender = contenders()[racing[i]];
    const double gain = 1.0 - Median(contender.samples) / Median(base.samples);
    const std::string reason = LosesInOtherCaches(contender, base);
    if (Ended()) return;
    if (reason.empty()) {
      election = {i, Percent(gain) + " faster than " + name + lost};
      return;
    }
    lost += "; " + contender.candidate.FullName() + " is " + Percent(gain) + " faster than " +
            name + ", but " + reason;
    if (sampler_.OutOfTime()) break;
  }
  election = {0, name + lost};
}

}  // namespace tunableop
