#include <algorithm>
#include <cmath>
#include <utility>

#include "tuner/preconditions.h"
#include "tuner/statistics.h"
#include "tuner/tuning.h"

namespace tunableop {
namespace {

constexpr size_t kMostLanes = 8;  // that race; of more, those with the best probes

}  // namespace

void Tuning::ChooseLanes(std::vector<size_t>& racing) const {
  const std::vector<Contender>& all = field_.contenders;
  const auto rank = [&](size_t i) { return i == field_.incumbent ? 0 : i == 0 ? 1 : 2; };
  std::stable_sort(racing.begin(), racing.end(), [&](size_t a, size_t b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return BestSample(all[a]) < BestSample(all[b]);
  });
  constexpr double kRounds = 8.0;  // fewer than that decide little
  double round_ms = 0.0;
  size_t count = 0;
  const double left_ms = options_.max_tuning_ms - SpentMs();
  while (count < std::min(kMostLanes, racing.size())) {
    const double one = BestSample(all[racing[count]]);
    round_ms += one * CallsPerSample(one);
    // One challenger at least, beside those that race whatever they take.
    if (count >= 2 && rank(racing[count - 1]) == 2 && round_ms * kRounds > left_ms) break;
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

void Tuning::RejectFailed(const std::vector<size_t>& racing, std::span<const Lane> lanes) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].failure.ok()) continue;
    Contender& contender = contenders()[racing[i]];
    field_.Reject(contender, "returned an error: " + std::string(lanes[i].failure.message()));
    contender.right = false;
  }
}

void Tuning::CheckWinner(const std::vector<size_t>& racing, Election& election) {
  if (election.winner != kNoLane && !contenders()[racing[election.winner]].right) {
    election.winner = kNoLane;
  }
  while (true) {
    if (election.winner == kNoLane) election.winner = FirstRight(racing);
    if (election.winner == kNoLane) return;
    Contender& winner = contenders()[racing[election.winner]];
    double ms = 0.0;
    if (!options_.verify || sampler_.OutOfTime() || trial_->RunAndCheck(winner, HUGE_VAL, ms)) {
      return;
    }
    winner.right = false;
    election = {kNoLane, "the fastest was wrong in its last call"};
  }
}

void Tuning::JudgeSpectator(const Contender& winner) {
  Contender* spectator = field_.spectator();
  if (spectator == nullptr || !spectator->raced || !spectator->right || !winner.raced) return;
  if (!Beats(spectator->samples, winner.samples, options_.min_gain)) return;
  double ms = 0.0;
  spectator_wins_ =
      !options_.verify || sampler_.OutOfTime() || trial_->RunAndCheck(*spectator, HUGE_VAL, ms);
}

Result<TuneResult> Tuning::HoldRace(std::vector<size_t> racing) {
  ChooseLanes(racing);
  const std::vector<size_t> electable = racing;
  const Contender& front = contenders()[racing.front()];
  const bool to_beat = front.index == field_.incumbent || front.index == 0;
  Contender* spectator = field_.spectator();
  if (spectator != nullptr && spectator->right && field_.spectator_note.empty()) {
    racing.push_back(spectator->index);
  }
  std::vector<Lane> lanes(racing.size());
  for (size_t i = 0; i < racing.size(); ++i) {
    const Contender& contender = contenders()[racing[i]];
    lanes[i].probe_ms = BestSample(contender);
    lanes[i].call = trial_->CallOf(contender);
    lanes[i].electable = !contender.spectator;
  }
  RaceOptions options;
  options.min_gain = options_.min_gain;
  if (to_beat) options.incumbent_name = field_.NameOf(front);
  if (operands_.beta != 0.0F) {
    // C is added to itself in every call: starting afresh keeps it from growing without bound.
    options.before_round = [this] { scratch_->FillC(operands_.c); };
  }
  Election election = RunRace(lanes, to_beat ? 0 : kNoLane, options, sampler_);
  if (electable.size() == 1 && to_beat) {
    election = {0, options.incumbent_name +
                       (unraced_ ? ": no time to try another in a budget of " +
                                       Milliseconds(options_.max_tuning_ms)
                        : field_.electable() == 1
                            ? ": there is no other candidate"
                            : ": no other candidate is right and within 1.5 times its time")};
  }
  RejectFailed(racing, lanes);
  for (size_t i = 0; i < racing.size(); ++i) {
    if (lanes[i].ms.empty()) continue;
    contenders()[racing[i]].samples = std::move(lanes[i].ms);
    contenders()[racing[i]].raced = true;
  }
  CheckWinner(electable, election);
  if (election.winner == kNoLane) return NobodyIsRight();
  const Contender& winner = contenders()[electable[election.winner]];
  JudgeSpectator(winner);
  std::string why = std::move(election.why);
  const Contender& incumbent = contenders()[field_.incumbent];
  if (front.index != incumbent.index) {
    why = field_.NameOf(incumbent) + " is wrong or fails: " + why;
  }
  return Finish(winner, winner.raced ? Median(winner.samples) : BestSample(winner), std::move(why));
}

}  // namespace tunableop
