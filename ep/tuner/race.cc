#include "tuner/race.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <utility>

#include "tuner/statistics.h"

namespace tunableop {
namespace {

constexpr double kLuckOfSwitch = 0.005;  // over all looks and challengers
constexpr double kLuckOfDropping = 0.05;
constexpr std::array<size_t, 4> kLooks = {24, 96, 384, 1024};

double ShareOfLuck(size_t challengers) {
  return kLuckOfSwitch / static_cast<double>(kLooks.size()) / static_cast<double>(challengers);
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", 100.0 * share);
  return text;
}

class Race {
 public:
  Race(std::span<Lane> lanes, size_t incumbent, const RaceOptions& options, Sampler& sampler)
      : lanes_(lanes),
        incumbent_(incumbent),
        options_(options),
        sampler_(sampler),
        random_(options.seed) {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (!lanes_[i].racing) continue;
      order_.push_back(i);
      if (!lanes_[i].electable) continue;
      ++electable_;
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
      if (electable_ < 2) break;
    }
    Election election = Elect();
    if (election.winner != kNoLane) WatchSpectator(election.winner);
    return election;
  }

 private:
  // False when time is up or the election needs no more.
  bool Round() {
    if (electable_ == 0 || (incumbent_ != kNoLane && electable_ < 2)) return false;
    return RunLanes();
  }

  bool RunLanes() {
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
    double ms = -1.0;
    lane.failure = sampler_.Take(lane.call, CallsPerSample(lane.probe_ms), lane.probe_ms, ms);
    return ms;
  }

  void Leave(size_t lane) {
    lanes_[lane].racing = false;
    if (lanes_[lane].electable) --electable_;
    std::erase(order_, lane);
  }

  // The winner and the spectator alone.
  void WatchSpectator(size_t winner) {
    const auto found =
        std::find_if(order_.begin(), order_.end(), [&](size_t i) { return !lanes_[i].electable; });
    if (found == order_.end()) return;
    const Lane& lane = lanes_[*found];
    order_ = {winner, *found};
    for (const size_t look : kLooks) {
      const size_t until = std::min(look, options_.max_rounds);
      while (lane.ms.size() < until && order_.size() == 2 && RunLanes()) {
      }
      if (lane.ms.size() < until || order_.size() < 2) break;
      const std::vector<double>& best = lanes_[winner].ms;
      if (tunableop::Beats(lane.ms, best, options_.min_gain) || IsHopeless(lane.ms, best)) break;
    }
  }

  bool IsFasterBeyondLuck(const Lane& lane) const {
    return ChanceOfLuck(lane.ms, lanes_[incumbent_].ms) <= ShareOfLuck(challengers_);
  }

  bool Beats(const Lane& lane) const {
    return tunableop::Beats(lane.ms, lanes_[incumbent_].ms, options_.min_gain, challengers_);
  }

  // `incumbent`, sped up by min_gain, is faster.
  bool IsHopeless(std::span<const double> challenger, std::span<const double> incumbent) const {
    return ChanceOfLuck(incumbent, challenger, 1.0 / (1.0 - options_.min_gain)) <= kLuckOfDropping;
  }

  std::vector<size_t> ByMedian() const {
    std::vector<size_t> lanes;
    for (const size_t i : order_) {
      if (i != incumbent_ && lanes_[i].electable && !lanes_[i].ms.empty()) lanes.push_back(i);
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
      if (IsHopeless(lanes_[i].ms, lanes_[incumbent_].ms)) Leave(i);
    }
  }

  Election Elect() const {
    const std::vector<size_t> lanes = ByMedian();
    if (incumbent_ == kNoLane) {
      if (lanes.empty()) return {kNoLane, "nothing was measured"};
      return {lanes.front(), "the fastest of those that are right"};
    }
    const double base = Median(lanes_[incumbent_].ms);
    if (base == 0.0) return {incumbent_, Incumbent() + ": the budget ended before a round was run"};
    if (const size_t winner = Challenger(); winner != kNoLane) {
      return {winner,
              Percent(1.0 - Median(lanes_[winner].ms) / base) + " faster than " + Incumbent()};
    }
    if (lanes.empty()) {
      return {incumbent_,
              Incumbent() + ": no candidate can be " + Percent(options_.min_gain) + " faster"};
    }
    const Lane& best = lanes_[lanes.front()];
    const double gain = 1.0 - Median(best.ms) / base;
    if (gain < options_.min_gain) {
      return {incumbent_,
              Incumbent() + ": no candidate is faster by " + Percent(options_.min_gain)};
    }
    if (!IsFasterBeyondLuck(best)) {
      return {incumbent_, Incumbent() + ": a lead of " + Percent(gain) + " in " +
                              std::to_string(best.ms.size()) + " rounds may be noise"};
    }
    return {incumbent_, Incumbent() + ": a lead of " + Percent(gain) + " did not last"};
  }

  const std::string& Incumbent() const { return options_.incumbent_name; }

  std::span<Lane> lanes_;
  size_t incumbent_;
  const RaceOptions& options_;
  Sampler& sampler_;
  std::mt19937_64 random_;
  std::vector<size_t> order_;  // lanes still racing
  size_t electable_ = 0;       // of them
  size_t challengers_ = 0;     // at the start: those that left were given their chance
};

}  // namespace

bool Beats(std::span<const double> challenger, std::span<const double> incumbent, double min_gain,
           size_t challengers) {
  return !challenger.empty() && Median(challenger) <= (1.0 - min_gain) * Median(incumbent) &&
         ChanceOfLuck(challenger, incumbent) <= ShareOfLuck(challengers) &&
         IsStillAhead(challenger, incumbent);
}

Election RunRace(std::span<Lane> lanes, size_t incumbent, const RaceOptions& options,
                 Sampler& sampler) {
  return Race(lanes, incumbent, options, sampler).Run();
}

}  // namespace tunableop
