#include "tuner/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "tuner/journal_scope.h"
#include "tuner/statistics.h"

namespace tunableop {
namespace {

constexpr double kProbingShare = 0.5;  // of the budget: then the race begins with who is there
constexpr double kBytesPerMs = 256
                               << 10;  // of C, for each ms of the budget: checking takes time too

int64_t Deadline(int64_t start, const TunerOptions& options) {
  return start + static_cast<int64_t>(std::clamp(options.max_tuning_ms, 0.0, 1e9) * 1e6);
}

}  // namespace

std::string Milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g ms", ms);
  return text;
}

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

std::optional<std::string> Tuning::WhyUnmeasured() const {
  if (field_.contenders.size() == 1 && !options_.verify) return ": there is no other candidate";
  if (Flops(problem_) == 0.0) return ": there is nothing to compute";
  if (problem_.batch > 1 && problem_.stride_c == 0) {
    return ", unmeasured: the batch items of C overlap";
  }
  return std::nullopt;
}

Result<TuneResult> Tuning::Run(std::span<const std::shared_ptr<const Backend>> backends) {
  Result<TuneResult> result = RunToEnd(backends);
  if (!sampler_.cancelled()) return result;
  return Status(StatusCode::kCancelled, ToString(problem_) + ": measuring was given up");
}

Result<TuneResult> Tuning::RunToEnd(std::span<const std::shared_ptr<const Backend>> backends) {
  Result<Field> field = GatherContenders(problem_, backends, options_);
  if (!field.ok()) return field.TakeStatus();
  field_ = std::move(field).value();
  if (std::optional<std::string> why = WhyUnmeasured()) return Default("the default" + *why);
  const double bytes = static_cast<double>(problem_.m) * static_cast<double>(problem_.n) *
                       static_cast<double>(problem_.batch) *
                       static_cast<double>(SizeOf(problem_.c_type));
  if (bytes > kBytesPerMs * options_.max_tuning_ms) {
    return DefaultForWantOfTime("the default, unmeasured: a budget of " +
                                Milliseconds(options_.max_tuning_ms) +
                                " does not pay for checking a C of " +
                                std::to_string(static_cast<int64_t>(bytes) >> 10) + " KiB");
  }
  Result<Scratch> scratch = Scratch::Create(problem_, options_.max_scratch_bytes);
  if (!scratch.ok()) {
    return Default("the default, unmeasured: " + std::string(scratch.status().message()));
  }
  scratch_.emplace(std::move(scratch.value()));
  trial_.emplace(problem_, operands_, executor_, options_, *scratch_, sampler_, field_);
  std::vector<Candidate> candidates;
  for (const Contender& contender : contenders()) candidates.push_back(contender.candidate);
  const JournalScope scope(options_.journal, problem_, candidates);
  return Measure();
}

Result<TuneResult> Tuning::Measure() {
  double default_ms = HUGE_VAL;  // its median probe: a lucky one would be too strict a measure
  std::vector<size_t> racing;
  for (size_t i = 0; i < contenders().size(); ++i) {
    Contender& contender = contenders()[i];
    // Past the budget only the search for a first right kernel goes on.
    const bool late = sampler_.OutOfTime() || SpentMs() > kProbingShare * options_.max_tuning_ms;
    if (i != 0 && late && !racing.empty()) {
      if (racing.size() == 1) unraced_ = true;
      break;
    }
    double ms = 0.0;
    if (!trial_->RunAndCheck(contender, i == 0 ? HUGE_VAL : kHopeless * default_ms, ms)) continue;
    if (i == 0 && ms > kMostOfBudget * options_.max_tuning_ms) {
      contender.samples.push_back(ms);
      return DefaultForWantOfTime("the default: one call of it takes " + Milliseconds(ms) +
                                  ", too much for a budget of " +
                                  Milliseconds(options_.max_tuning_ms));
    }
    if (!contender.right) {
      contender.samples.push_back(ms);
      continue;  // hopelessly slow
    }
    if (!trial_->Probe(contender, ms, i == 0 ? 0.0 : kProbeLimit * default_ms)) {
      contender.right = false;
      continue;
    }
    if (i == 0) default_ms = Median(contender.samples);
    if (BestSample(contender) <= kProbeLimit * default_ms) racing.push_back(i);
  }
  if (racing.empty()) return NobodyIsRight();
  return HoldRace(std::move(racing));
}

Result<TuneResult> Tuning::NobodyIsRight() {
  for (Contender& contender : contenders()) {
    double ms = 0.0;
    const bool unchecked =
        !contender.right && !contender.samples.empty() && !field_.IsRejected(contender);
    if (unchecked && trial_->RunAndCheck(contender, HUGE_VAL, ms)) {
      contender.samples.push_back(ms);
      return Finish(contender, BestSample(contender), "the only one that is right");
    }
  }
  return Status(StatusCode::kInternal,
                ToString(problem_) + ": every kernel is wrong or fails" + field_.Reasons());
}

}  // namespace tunableop
