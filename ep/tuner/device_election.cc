#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "tuner/device_tuning.h"
#include "tuner/preconditions.h"
#include "tuner/statistics.h"
#include "tuner/trial.h"

namespace tunableop {
namespace {

constexpr size_t kMostLanes = 8;
constexpr double kRounds = 24.0;  // of the race, that there should be time for: its first look

// Of the budget, until which more finalists are checked, and until which they race. Candidates may
// be many with CandidateScope::kAll: then the search has more of it.
double CheckingShare(const TunerOptions& options) {
  return options.candidates == CandidateScope::kAll ? 0.8 : 0.7;
}
constexpr double kRaceShare = 0.88;

}  // namespace

std::vector<size_t> DeviceTuning::ChooseFinalists() {
  std::vector<size_t> ranked;
  for (const Contender& contender : contenders()) {
    if (contender.samples.empty() || field_.IsRejected(contender.candidate)) continue;
    const bool must = contender.index == base_ || (contender.index == 0 && contender.right);
    if (must || BestSample(contender) <= kProbeLimit * base_ms_) ranked.push_back(contender.index);
  }
  const auto rank = [&](size_t i) {
    return i == base_ ? 0 : i == 0 && contenders()[0].right ? 1 : 2;
  };
  std::stable_sort(ranked.begin(), ranked.end(), [&](size_t a, size_t b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return BestSample(contenders()[a]) < BestSample(contenders()[b]);
  });
  std::vector<size_t> racing;
  bool challenged = false;
  for (const size_t i : ranked) {
    if (racing.size() == kMostLanes || Ended()) break;
    Contender& contender = contenders()[i];
    if (!contender.right) {
      if (sampler_.OutOfTime() || (challenged && Late(CheckingShare(options_)))) break;
      double ms = 0.0;
      if (!RunAndCheck(contender, ms)) continue;
    }
    if (rank(i) == 2) challenged = true;
    racing.push_back(i);
  }
  return racing;
}

size_t DeviceTuning::FirstRight(const std::vector<size_t>& racing) const {
  for (size_t i = 0; i < racing.size(); ++i) {
    if (field_.contenders[racing[i]].right) return i;
  }
  return kNoLane;
}

void DeviceTuning::RejectFailed(const std::vector<size_t>& racing, std::span<const Lane> lanes) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].failure.ok()) continue;
    Contender& contender = contenders()[racing[i]];
    contender.right = false;
    if (!Accept(contender, lanes[i].failure) && Ended()) return;
  }
}

void DeviceTuning::CheckWinner(const std::vector<size_t>& racing, Election& election) {
  if (election.winner != kNoLane && !contenders()[racing[election.winner]].right) {
    election.winner = kNoLane;
  }
  while (true) {
    if (election.winner == kNoLane) election.winner = FirstRight(racing);
    if (election.winner == kNoLane) return;
    Contender& winner = contenders()[racing[election.winner]];
    double ms = 0.0;
    if (!options_.verify || sampler_.OutOfTime() || RunAndCheck(winner, ms) || Ended()) return;
    winner.right = false;
    election = {kNoLane, "the fastest was wrong in its last call"};
  }
}

void DeviceTuning::FitToTime(std::vector<size_t>& racing) const {
  const double left_ms = kRaceShare * options_.max_tuning_ms - SpentMs();
  double round_ms = 0.0;
  for (size_t i = 0; i < racing.size(); ++i) {
    const double best = BestSample(field_.contenders[racing[i]]);
    round_ms += sample_ms_ * std::max(1.0, best / base_ms_);
    // One challenger at least, beside those that race whatever they take.
    const bool must = i <= 1 || racing[i] == 0 || (i == 2 && racing[1] == 0);
    if (!must && round_ms * kRounds > left_ms) {
      racing.resize(i);
      return;
    }
  }
}

Result<TuneResult> DeviceTuning::HoldRace(std::vector<size_t> racing) {
  FitToTime(racing);
  const Contender& front = contenders()[racing.front()];
  const bool to_beat = front.index == field_.incumbent || front.index == 0;
  std::vector<Lane> lanes(racing.size());
  for (size_t i = 0; i < racing.size(); ++i) {
    const Contender& contender = contenders()[racing[i]];
    lanes[i].probe_ms = BestSample(contender);
    lanes[i].call = CallOf(contender, caches_);
  }
  RaceOptions options;
  options.min_gain = options_.min_gain;
  if (to_beat) options.incumbent_name = field_.NameOf(front);
  if (operands_.beta != 0.0F) {
    // C is added to itself in every call: starting afresh keeps it from growing without bound.
    options.before_round = [this] { Expect(answers_->Prepare()); };
  }
  sampler_.SetDeadline(DeadlineAt(kRaceShare));
  Election election = RunRace(lanes, to_beat ? 0 : kNoLane, options, sampler_);
  sampler_.SetDeadline(DeadlineAt(1.0));
  RejectFailed(racing, lanes);
  if (Ended()) return Unmeasured("given up");
  if (racing.size() == 1 && to_beat) {
    election = {0, options.incumbent_name +
                       (unraced_ ? ": no time to try another in a budget of " +
                                       Milliseconds(options_.max_tuning_ms)
                        : field_.electable() == 1
                            ? ": there is no other candidate"
                            : ": no other candidate is right and within 1.5 times its time")};
  } else {
    unraced_ = false;
  }
  for (size_t i = 0; i < racing.size(); ++i) {
    if (lanes[i].ms.empty()) continue;
    contenders()[racing[i]].samples = std::move(lanes[i].ms);
    contenders()[racing[i]].raced = true;
  }
  if (to_beat) CheckOtherCaches(racing, election);
  if (!Ended()) CheckWinner(racing, election);
  if (Ended()) return Unmeasured("given up");
  if (election.winner == kNoLane) return NobodyIsRight();
  const Contender& winner = contenders()[racing[election.winner]];
  std::string why = std::move(election.why);
  const Contender& incumbent = contenders()[field_.incumbent];
  if (front.index != incumbent.index) {
    why = field_.NameOf(incumbent) + " is wrong or fails: " + why;
  }
  return Finish(winner, winner.raced ? Median(winner.samples) : BestSample(winner), std::move(why));
}

}  // namespace tunableop
