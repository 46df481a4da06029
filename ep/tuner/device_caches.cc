#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tuner/device_pairs.h"
#include "tuner/device_tuning.h"
#include "tuner/statistics.h"

namespace tunableop {
namespace {

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100.0 * share);
  return text;
}

}  // namespace

std::string DeviceTuning::LosesInOtherCaches(const Contender& winner, const Contender& base) {
  const bool cold = caches_ == Caches::kCold;
  const Caches other = cold ? Caches::kWarm : Caches::kCold;
  const auto samples_of = [&](const Contender& contender) {
    return [&](std::vector<double>& samples) {
      double ms = -1.0;
      const Status status = sampler_.Take(CallOf(contender, other), 1, BestSample(contender), ms);
      if (!Accept(contender, status)) return false;
      if (ms >= 0.0) samples.push_back(ms);
      return ms >= 0.0;
    };
  };
  return LossInPairs(samples_of(winner), samples_of(base), cold ? "warm caches" : "cold caches");
}

void DeviceTuning::CheckOtherCaches(const std::vector<size_t>& racing, Election& election) {
  if (election.winner == kNoLane || election.winner == 0 || !timer_->CanBeCold()) return;
  const Contender& base = contenders()[racing.front()];
  if (!base.right || !base.raced) return;
  double fill_ms = 0.0;
  if (!Expect(timer_->FillMs(fill_ms))) return;
  if (Median(base.samples) > kFillsOfLongCall * fill_ms) return;

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
