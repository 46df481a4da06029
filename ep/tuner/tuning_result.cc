#include <algorithm>
#include <optional>
#include <utility>

#include "tuner/clock_probe.h"
#include "tuner/deny_list.h"
#include "tuner/journal_scope.h"
#include "tuner/perf_counters.h"
#include "tuner/statistics.h"
#include "tuner/tuning.h"

namespace tunableop {

namespace {

// As good as none: any budget is more, and will measure.
constexpr double kAnyBudgetMs = 1e-3;

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
  if (!options_.remember_wrong || sampler_.stopped() || watch_->Changed()) return;
  for (const Field::Wrong& wrong : field_.wrong) {
    const Contender& contender = field_.contenders[wrong.index];
    Deny(contender.candidate, contender.backend->identity(), wrong.reason);
  }
}

PerfReading Tuning::CountHardware(const Contender& winner, double ms) {
  PerfReading sum;
  if (!options_.count_hardware) return sum;
  if (ms <= 0.0 || sampler_.OutOfTime() || !sampler_.WaitForTurn()) {
    sum.unavailable = "there was no time to count";
    return sum;
  }
  constexpr double kCountingMs = 1.0;
  const int calls = std::clamp(static_cast<int>(kCountingMs / ms), 1, 256);
  const auto add = [calls](std::optional<double>& to, const std::optional<double>& count) {
    if (count) to = to.value_or(0.0) + *count / calls;
  };
  PerfCounters counters;
  const TimedCall call = trial_->CallOf(winner);
  const CallScope scope(options_.journal, call.index);
  int done = 0;
  for (; done < calls; ++done) {
    sampler_.PrepareCall();
    if (done != 0 && sampler_.OutOfTime()) break;
    counters.Start();
    const Status status = call.run();
    const PerfReading reading = counters.Stop(1);
    if (!status.ok()) break;  // it was right before, and is to be judged by its next caller
    add(sum.cycles, reading.cycles);
    add(sum.instructions, reading.instructions);
    add(sum.cache_misses, reading.cache_misses);
    sum.unavailable = reading.unavailable;
  }
  for (std::optional<double>* value : {&sum.cycles, &sum.instructions, &sum.cache_misses}) {
    if (*value && done != 0) **value *= static_cast<double>(calls) / done;
  }
  return sum;
}

TuneResult Tuning::Unmeasured(std::string why) {
  // One that hangs is known to, whatever the operands were.
  const auto may_serve = [](const Contender& contender) {
    return !contender.spectator &&
           !DenialOf(contender.candidate, contender.backend->identity()).has_value();
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
  result.spectator_note = options_.spectator != nullptr ? "not measured" : "";
  result.spent_ms = SpentMs() + static_cast<double>(sampler_.forgiven_ns()) * 1e-6;
  return result;
}

TuneResult Tuning::Finish(const Contender& winner, double winner_ms, std::string why) {
  if (!field_.wrong.empty() && winner.right) DenyTheWrong();
  TuneResult result;
  result.counters = CountHardware(winner, winner_ms);
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
  result.spent_ms = SpentMs() + static_cast<double>(sampler_.forgiven_ns()) * 1e-6;
  return result;
}

}  // namespace tunableop
