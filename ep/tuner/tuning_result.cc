#include <utility>

#include "tuner/clock_probe.h"
#include "tuner/deny_list.h"
#include "tuner/statistics.h"
#include "tuner/tuning.h"

namespace tunableop {

namespace {

// 0 when it has not run.
double FigureOf(const Contender& contender) {
  if (contender.samples.empty()) return 0.0;
  return contender.raced ? Median(contender.samples) : BestSample(contender);
}

}  // namespace

Result<TuneResult> Tuning::Keep(const Contender& contender, std::string why) {
  return Finish(contender, FigureOf(contender), std::move(why));
}

Result<TuneResult> Tuning::KeepForWantOfTime(const Contender& contender, std::string why) {
  unraced_ = field_.electable() > 1;
  return Keep(contender, std::move(why));
}

void Tuning::DenyTheWrong() const {
  if (!options_.remember_wrong || sampler_.cancelled()) return;
  for (const Rejection& wrong : field_.wrong) Deny(wrong.candidate, wrong.reason);
}

TuneResult Tuning::Finish(const Contender& winner, double winner_ms, std::string why) {
  if (options_.verify && winner.right) DenyTheWrong();
  TuneResult result;
  result.winner = winner.candidate;
  result.plan = winner.plan;
  result.winner_ms = winner_ms;
  result.error = winner.error;
  result.why = std::move(why);
  result.budget_ms = unraced_ ? options_.max_tuning_ms : 0.0;
  const Contender& first = contenders().front();
  result.default_candidate = first.candidate;
  if (&winner == &first) {
    result.default_ms = winner_ms;
  } else {
    result.default_ms = FigureOf(first);
  }
  for (Contender& contender : contenders()) {
    if (contender.spectator) {
      result.spectator_ms = FigureOf(contender);
      if (contender.samples.empty() && field_.spectator_note.empty()) {
        field_.spectator_note = "not measured";
      }
    }
    if (contender.samples.empty()) continue;
    if (!contender.spectator) ++result.tried;
    result.samples.push_back({contender.candidate, std::move(contender.samples)});
  }
  result.cold = cold_;
  if (!options_.now && !result.samples.empty()) result.clock_mhz = MeasureClockMhz();
  result.spectator_wins = spectator_wins_;
  result.spectator_note = std::move(field_.spectator_note);
  result.rejected = std::move(field_.rejected);
  result.spent_ms = SpentMs();
  return result;
}

}  // namespace tunableop
