#include <algorithm>
#include <cmath>
#include <utility>

#include "tuner/statistics.h"
#include "tuner/tuning.h"

namespace tunableop {
namespace {

constexpr size_t kMostLanes = 8;  // that race; of more, those with the best probes

}  // namespace

void Tuning::ChooseLanes(std::vector<size_t>& racing) const {
  const std::vector<Contender>& all = field_.contenders;
  std::stable_sort(racing.begin(), racing.end(), [&](size_t a, size_t b) {
    if (a == 0 || b == 0) return a == 0 && b != 0;  // the default first
    return BestSample(all[a]) < BestSample(all[b]);
  });
  constexpr double kRounds = 8.0;  // fewer than that decide little
  double round_ms = 0.0;
  size_t count = 0;
  const double left_ms = options_.max_tuning_ms - SpentMs();
  while (count < std::min(kMostLanes, racing.size())) {
    const double one = BestSample(all[racing[count]]);
    round_ms += one * CallsPerSample(one);
    if (count >= 2 && round_ms * kRounds > left_ms) break;
    ++count;
  }
  racing.resize(std::max<size_t>(1, count));
}

size_t Tuning::FirstRight(const std::vector<size_t>& racing) const {
  for (size_t i = 0; i < racing.size(); ++i) {
    if (field_.contenders[racing[i]].right) return i;
  }
  return kNoLane;
}

void Tuning::RejectFailed(const std::vector<size_t>& racing, std::span<Lane> lanes) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].failure.ok()) continue;
    Contender& contender = contenders()[racing[i]];
    field_.Reject(contender, "returned an error: " + std::string(lanes[i].failure.message()));
    contender.right = false;
  }
}

Result<TuneResult> Tuning::HoldRace(std::vector<size_t> racing) {
  ChooseLanes(racing);
  const bool default_is_right = racing.front() == 0;
  std::vector<Lane> lanes(racing.size());
  for (size_t i = 0; i < racing.size(); ++i) {
    const Contender& contender = contenders()[racing[i]];
    lanes[i].probe_ms = BestSample(contender);
    lanes[i].call = trial_->CallOf(contender);
  }
  RaceOptions options;
  options.min_gain = options_.min_gain;
  if (operands_.beta != 0.0F) {
    // C is added to itself in every call: starting afresh keeps it from growing without bound.
    options.before_round = [this] { scratch_->FillC(operands_.c); };
  }
  Election election = RunRace(lanes, default_is_right ? 0 : kNoLane, options, sampler_);
  if (lanes.size() == 1 && default_is_right) {
    election = {0, unraced_ ? "the default: no time to try another in a budget of " +
                                  Milliseconds(options_.max_tuning_ms)
                   : contenders().size() == 1 ? "the default: there is no other candidate"
                                              : "the default: no other candidate is right and "
                                                "within 1.5 times its time"};
  }
  RejectFailed(racing, lanes);
  // A kernel may be right once and wrong later.
  while (true) {
    if (election.winner == kNoLane) election.winner = FirstRight(racing);
    if (election.winner == kNoLane) return NobodyIsRight();
    Contender& winner = contenders()[racing[election.winner]];
    double ms = 0.0;
    if (!options_.verify || sampler_.OutOfTime() || trial_->RunAndCheck(winner, HUGE_VAL, ms)) {
      break;
    }
    winner.right = false;
    election = {FirstRight(racing), "the fastest was wrong in its last call"};
  }
  for (size_t i = 0; i < racing.size(); ++i) {
    if (lanes[i].ms.empty()) continue;
    contenders()[racing[i]].samples = std::move(lanes[i].ms);
    contenders()[racing[i]].raced = true;
  }
  const Contender& winner = contenders()[racing[election.winner]];
  const double ms = winner.raced ? Median(winner.samples) : BestSample(winner);
  return Finish(winner, ms,
                (default_is_right ? "" : "the default is wrong or fails: ") + election.why);
}

}  // namespace tunableop
