#include "tuner/tuning.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tuner/cache_flush.h"
#include "tuner/clock_probe.h"
#include "tuner/journal_scope.h"
#include "tuner/operand_ranges.h"
#include "tuner/preconditions.h"
#include "tuner/statistics.h"

namespace tunableop {
namespace {

constexpr double kClockShare = 0.02;   // of the budget, for the core to reach its clock
constexpr double kProbingShare = 0.5;  // of the budget: then the race begins with who is there
constexpr double kBytesPerMs = 256
                               << 10;  // of C, for each ms of the budget: checking takes time too

int64_t Deadline(int64_t start, const TunerOptions& options) {
  return start + static_cast<int64_t>(std::clamp(options.max_tuning_ms, 0.0, 1e9) * 1e6);
}

}  // namespace

Tuning::Tuning(const Problem& problem, const Operands& operands, Executor& executor,
               const TunerOptions& options)
    : problem_(problem),
      operands_(operands),
      executor_(executor),
      options_(options),
      sampler_(options.now ? options.now : NowFn(&SteadyNow), options.journal, options.pacer),
      start_(sampler_.Now()) {
  sampler_.SetDeadline(Deadline(start_, options_));
}

std::optional<std::string> Tuning::WhyUnmeasured() {
  const bool alone = field_.electable() == 1 && field_.spectator() == nullptr;
  if (alone && !options_.verify) return ": there is no other candidate";
  if (Flops(problem_) == 0.0) return ": there is nothing to compute";
  if (MayOverlap(problem_)) {
    return ", unmeasured: the batch items of C overlap";
  }
  return std::nullopt;
}

Result<TuneResult> Tuning::Run(std::span<const std::shared_ptr<const Backend>> backends) {
  Result<TuneResult> result = RunToEnd(backends);
  if (sampler_.cancelled()) {
    return Status(StatusCode::kCancelled, ToString(problem_) + ": measuring was given up");
  }
  if (watch_ && watch_->Changed()) return Unmeasured("the operands changed while measuring");
  return result;
}

Result<TuneResult> Tuning::RunToEnd(std::span<const std::shared_ptr<const Backend>> backends) {
  Result<Field> field = GatherContenders(problem_, backends, options_);
  if (!field.ok()) return field.TakeStatus();
  field_ = std::move(field).value();
  Contender& incumbent = contenders()[field_.incumbent];
  const std::string name = field_.NameOf(incumbent);
  if (std::optional<std::string> why = WhyUnmeasured()) return Keep(incumbent, name + *why);
  const double bytes = static_cast<double>(problem_.m) * static_cast<double>(problem_.n) *
                       static_cast<double>(problem_.batch) *
                       static_cast<double>(SizeOf(problem_.c_type));
  if (bytes > kBytesPerMs * options_.max_tuning_ms) {
    return KeepForWantOfTime(
        incumbent, name + ", unmeasured: a budget of " + Milliseconds(options_.max_tuning_ms) +
                       " does not pay for checking a C of " +
                       std::to_string(static_cast<int64_t>(bytes) >> 10) + " KiB");
  }
  Result<Scratch> scratch = Scratch::Create(problem_, options_.max_scratch_bytes);
  if (!scratch.ok()) {
    return Keep(incumbent, name + ", unmeasured: " + std::string(scratch.status().message()));
  }
  scratch_.emplace(std::move(scratch.value()));
  watch_.emplace(problem_, operands_);
  trial_.emplace(problem_, operands_, executor_, options_, *watch_, *scratch_, sampler_, field_);
  std::vector<Candidate> candidates;
  for (const Contender& contender : contenders()) candidates.push_back(contender.candidate);
  const JournalScope scope(options_.journal, problem_, candidates);
  PrepareMachine();
  return Measure();
}

void Tuning::PrepareMachine() {
  if (options_.cold_b && CanFlushCaches()) {
    cold_ = true;
    sampler_.SetBeforeCall([this, b = RangesOf(problem_, operands_).b] {
      FlushFromCaches(b.data, b.bytes, executor_);
    });
  }
  // A virtual clock knows nothing of the core's.
  if (!options_.now && sampler_.WaitForTurn()) WarmUpClock(kClockShare * options_.max_tuning_ms);
}

std::vector<size_t> Tuning::TrialOrder() {
  std::vector<size_t> order = {field_.incumbent};
  const auto add = [&](size_t index) {
    if (std::find(order.begin(), order.end(), index) == order.end()) order.push_back(index);
  };
  add(0);
  if (const Contender* spectator = field_.spectator()) add(spectator->index);
  for (const Contender& contender : contenders()) add(contender.index);
  return order;
}

Result<TuneResult> Tuning::Measure() {
  double base_ms =
      HUGE_VAL;  // median probe of who is to be beaten: a lucky one would be too strict
  std::vector<size_t> racing;
  for (const size_t i : TrialOrder()) {
    Contender& contender = contenders()[i];
    if (contender.spectator) {
      TrySpectator(contender, base_ms);
      continue;
    }
    const bool is_base = i == field_.incumbent || (i == 0 && !contenders()[field_.incumbent].right);
    // Past the budget only the search for a first right kernel goes on.
    const bool late =
        sampler_.OutOfTime() || (i != 0 && SpentMs() > kProbingShare * options_.max_tuning_ms);
    if (late && !racing.empty()) {
      if (racing.size() == 1) unraced_ = true;
      break;
    }
    double ms = 0.0;
    const double give_up_ms = is_base || i == 0 ? HUGE_VAL : kHopeless * base_ms;
    if (!trial_->RunAndCheck(contender, give_up_ms, ms)) continue;
    const double too_long = kMostOfBudget * options_.max_tuning_ms;
    // A neighbour's load can make any one call look long: judged by the best that there is time
    // for.
    for (int left = 2; is_base && left > 0 && ms > too_long; --left) {
      double again = 0.0;
      if (SpentMs() + ms > options_.max_tuning_ms) break;
      if (!trial_->RunAndCheck(contender, HUGE_VAL, again)) break;
      ms = std::min(ms, again);
    }
    if (is_base && !contender.right) continue;
    const bool fills_budget = ms > too_long;
    if (is_base && fills_budget) return KeepUnraced(contender, ms);
    if (!contender.right || (i == 0 && !is_base && fills_budget)) {
      contender.samples.push_back(ms);
      continue;  // hopelessly slow
    }
    if (!trial_->Probe(contender, ms, i == 0 ? 0.0 : kProbeLimit * base_ms)) {
      contender.right = false;
      continue;
    }
    if (is_base) base_ms = Median(contender.samples);
    const double limit = i == 0 ? kHopeless : kProbeLimit;
    if (BestSample(contender) <= limit * base_ms) racing.push_back(i);
  }
  if (racing.empty()) return NobodyIsRight();
  return HoldRace(std::move(racing));
}

void Tuning::TrySpectator(Contender& spectator, double base_ms) {
  if (sampler_.OutOfTime()) {
    field_.spectator_note = "there was no time for it";
    return;
  }
  double ms = 0.0;
  if (!trial_->RunAndCheck(spectator, HUGE_VAL, ms)) return;
  if (!trial_->Probe(spectator, ms, 0.0)) {
    spectator.right = false;
    return;
  }
  const double best = BestSample(spectator);
  if (best > kMostOfBudget * options_.max_tuning_ms) {
    field_.spectator_note = "one call of it takes " + Milliseconds(best) +
                            ", too much for a budget of " + Milliseconds(options_.max_tuning_ms);
  } else if (best > kHopeless * base_ms) {
    field_.spectator_note = "takes more than 3 times as long: it did not race";
  }
}

Result<TuneResult> Tuning::KeepUnraced(Contender& contender, double ms) {
  contender.samples.push_back(ms);
  Contender& first = contenders().front();
  double first_ms = 0.0;
  // For the record: how slow the default is.
  if (contender.index != 0 && !sampler_.OutOfTime() && !field_.IsRejected(first.candidate) &&
      trial_->RunAndCheck(first, HUGE_VAL, first_ms)) {
    first.samples.push_back(first_ms);
  }
  return KeepForWantOfTime(contender, field_.NameOf(contender) + ": one call of it takes " +
                                          Milliseconds(ms) + ", too much for a budget of " +
                                          Milliseconds(options_.max_tuning_ms));
}

Result<TuneResult> Tuning::NobodyIsRight() {
  for (Contender& contender : contenders()) {
    double ms = 0.0;
    const bool unchecked = !contender.right && !contender.spectator && !contender.samples.empty() &&
                           !field_.IsRejected(contender.candidate);
    if (unchecked && trial_->RunAndCheck(contender, HUGE_VAL, ms)) {
      contender.samples.push_back(ms);
      return Finish(contender, BestSample(contender), "the only one that is right");
    }
  }
  return Status(StatusCode::kInternal,
                ToString(problem_) + ": every kernel is wrong or fails" + field_.Reasons());
}

}  // namespace tunableop
