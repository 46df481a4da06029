#include <utility>

#include "tuner/deny_list.h"
#include "tuner/device_tuning.h"
#include "tuner/statistics.h"

namespace tunableop {
namespace {

// As good as none: any budget is more, and will measure.
constexpr double kAnyBudgetMs = 1e-3;
constexpr const char* kNoSpectator = "not measured on a card";

// 0 when it has not run.
double FigureOf(const Contender& contender) {
  if (contender.samples.empty()) return 0.0;
  return contender.raced ? Median(contender.samples) : BestSample(contender);
}

}  // namespace

Result<TuneResult> DeviceTuning::Keep(const Contender& contender, std::string why) {
  return Finish(contender, FigureOf(contender), std::move(why));
}

Result<TuneResult> DeviceTuning::NobodyIsRight() {
  for (Contender& contender : contenders()) {
    double ms = 0.0;
    if (contender.right || contender.samples.empty() || field_.IsRejected(contender.candidate)) {
      continue;
    }
    if (RunAndCheck(contender, ms)) {
      return Finish(contender, BestSample(contender), "the only one that is right");
    }
    if (Ended()) return Unmeasured("given up");
  }
  return Status(StatusCode::kInternal,
                ToString(problem_) + ": every kernel is wrong or fails" + field_.Reasons());
}

void DeviceTuning::DenyTheWrong() {
  if (!options_.remember_wrong || sampler_.stopped()) return;
  changed_ = answers_->OperandsChanged();
  if (changed_) return;
  for (const Field::Wrong& wrong : field_.wrong) {
    const Contender& contender = field_.contenders[wrong.index];
    Deny(contender.candidate, contender.backend->identity(), wrong.reason);
  }
}

TuneResult DeviceTuning::Unmeasured(std::string why) {
  // One that hangs is known to, whatever the operands were.
  const auto may_serve = [](const Contender& contender) {
    return !DenialOf(contender.candidate, contender.backend->identity()).has_value();
  };
  const Contender* serving = &contenders()[field_.incumbent];
  for (const Contender& contender : contenders()) {
    if (may_serve(*serving)) break;
    serving = &contender;
  }
  TuneResult result;
  result.winner = serving->candidate;
  result.plan = serving->plan;
  result.default_candidate = contenders().front().candidate;
  result.budget_ms = kAnyBudgetMs;
  result.why = field_.NameOf(*serving) + ", unmeasured: " + std::move(why);
  result.spectator_note = options_.spectator != nullptr ? kNoSpectator : "";
  result.spent_ms = SpentMs();
  return result;
}

TuneResult DeviceTuning::Finish(const Contender& winner, double winner_ms, std::string why) {
  if (!field_.wrong.empty() && winner.right) DenyTheWrong();
  TuneResult result;
  result.winner = winner.candidate;
  result.plan = winner.plan;
  result.winner_ms = winner_ms;
  result.error = winner.error;
  result.why = std::move(why);
  if (answers_ != nullptr && !answers_->note().empty()) result.why += "; " + answers_->note();
  result.budget_ms = unraced_ ? options_.max_tuning_ms : 0.0;
  const Contender& first = contenders().front();
  result.default_candidate = first.candidate;
  result.default_ms = &winner == &first ? winner_ms : FigureOf(first);
  for (Contender& contender : contenders()) {
    if (contender.samples.empty()) continue;
    ++result.tried;
    result.samples.push_back({contender.candidate, std::move(contender.samples)});
  }
  result.cold = caches_ == Caches::kCold && !result.samples.empty();
  result.spectator_note = options_.spectator != nullptr ? kNoSpectator : "";
  result.rejected = std::move(field_.rejected);
  result.spent_ms = SpentMs();
  return result;
}

}  // namespace tunableop
