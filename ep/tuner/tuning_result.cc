#include <utility>

#include "tuner/deny_list.h"
#include "tuner/statistics.h"
#include "tuner/tuning.h"

namespace tunableop {

Result<TuneResult> Tuning::Default(std::string why) {
  const Contender& first = contenders().front();
  return Finish(first, first.samples.empty() ? 0.0 : BestSample(first), std::move(why));
}

Result<TuneResult> Tuning::DefaultForWantOfTime(std::string why) {
  unraced_ = contenders().size() > 1;
  return Default(std::move(why));
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
  } else if (!first.samples.empty()) {
    result.default_ms = first.raced ? Median(first.samples) : BestSample(first);
  }
  for (Contender& contender : contenders()) {
    if (contender.samples.empty()) continue;
    ++result.tried;
    result.samples.push_back({contender.candidate, std::move(contender.samples)});
  }
  result.rejected = std::move(field_.rejected);
  result.spent_ms = SpentMs();
  return result;
}

}  // namespace tunableop
