#include "tuner/device_tuning.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tuner/host_copies.h"
#include "tuner/operand_ranges.h"
#include "tuner/preconditions.h"
#include "tuner/statistics.h"
#include "tuner/trial.h"

namespace tunableop {
namespace {

constexpr double kMultiplicationsPerMs = 1e5;  // for the reference, of each ms of the budget: 10 %
// For each ms of the budget: of a C that is checked whole, with one of up to four threads of the
// host, and of operands that are fetched whole. Of larger ones, samples are.
constexpr double kBytesOfCPerMs = 256 << 10;
constexpr double kOperandBytesPerMs = 1 << 20;
constexpr double kMostThreads = 4.0;
constexpr double kCopiesPerMs = 50.0;  // of single pieces: 10 %
// What any card does at least, in any type. A product that takes long at that is waited for.
constexpr double kFewestFlopsPerMs = 2e7;

bool PaysForWhole(const DeviceAnswers::Setting& setting, double budget_ms) {
  if (!setting.verify) return true;
  const size_t whole = DeviceAnswers::HostBytesOfWhole(setting);
  const double c = static_cast<double>(RangesOf(setting.problem, setting.operands).c.bytes);
  const double threads = std::min<double>(kMostThreads, setting.host.threads());
  return whole <= setting.max_bytes && c <= kBytesOfCPerMs * threads * budget_ms &&
         static_cast<double>(whole) - c <= kOperandBytesPerMs * budget_ms;
}

}  // namespace

DeviceTuning::DeviceTuning(const Problem& problem, const Operands& operands,
                           const DeviceQueue& session, Executor& host, const TunerOptions& options)
    : problem_(problem),
      operands_(operands),
      session_(session),
      host_(host),
      options_(options),
      sampler_(options.now ? options.now : NowFn(&SteadyNow), options.journal, options.pacer),
      start_(sampler_.Now()) {
  sampler_.SetDeadline(DeadlineAt(1.0));
}

Result<TuneResult> DeviceTuning::Run(Backends backends) {
  const CurrentAside current(session_.device());
  Result<TuneResult> result = RunToEnd(backends);
  if (!fatal_.ok()) {
    return Status(StatusCode::kInternal, ToString(problem_) + ": " + std::string(fatal_.message()));
  }
  if (sampler_.cancelled()) {
    return Status(StatusCode::kCancelled, ToString(problem_) + ": measuring was given up");
  }
  if (answers_ != nullptr && !changed_) changed_ = answers_->OperandsChanged();
  if (changed_) return Unmeasured("the operands changed while measuring");
  return result;
}

std::optional<std::string> DeviceTuning::WhyUnmeasured() const {
  if (Flops(problem_) == 0.0) return ": there is nothing to compute";
  if (MayOverlap(problem_)) return ", unmeasured: the batch items of C overlap";
  return std::nullopt;
}

Result<TuneResult> DeviceTuning::RunToEnd(Backends backends) {
  TunerOptions gathering = options_;
  gathering.spectator = nullptr;  // stock kernels of a card do not run on streams of ours
  const bool capturing = session_.device().IsCapturing(session_.stream());
  if (capturing) gathering.candidates = CandidateScope::kDefault;
  Result<Field> field = GatherContenders(problem_, backends, gathering);
  if (!field.ok()) return field.TakeStatus();
  field_ = std::move(field).value();
  if (capturing) return Unmeasured("a graph is being captured");
  const Contender& incumbent = contenders()[field_.incumbent];
  const std::string name = field_.NameOf(incumbent);
  if (std::optional<std::string> why = WhyUnmeasured()) return Keep(incumbent, name + *why);
  if (!sampler_.WaitForTurn()) return Unmeasured("measuring was given up");
  // What is waited for here is the session's work, and costs none of the budget.
  const int64_t begin = sampler_.Now();
  const Status ready = AwaitQueue(session_, options_.now, options_.hang_ms);
  sampler_.Forgive(sampler_.Now() - begin);
  if (session_.device().lost()) {
    fatal_ = Status(StatusCode::kInternal, std::string(ready.message()));
    return Unmeasured("the card is lost");
  }
  if (!ready.ok()) return Unmeasured(std::string(ready.message()));
  if (Status status = SetUp(); !status.ok()) {
    const std::string reason(status.message());
    if (session_.device().lost() || (stream_ != nullptr && stream_->hung())) {
      fatal_ = std::move(status);
    }
    return Unmeasured(reason);
  }
  return Measure(backends);
}

Status DeviceTuning::SetUp() {
  Result<std::unique_ptr<MeasuringStream>> stream = MeasuringStream::Create(
      session_, options_.now, std::max(options_.hang_ms, Flops(problem_) / kFewestFlopsPerMs));
  if (!stream.ok()) return stream.TakeStatus();
  stream_ = std::move(stream.value());
  const double threads = std::clamp<double>(host_.threads(), 1.0, 16.0);
  const double multiplications =
      threads * std::clamp(options_.max_tuning_ms * kMultiplicationsPerMs, 2e5, 1.6e7);
  const DeviceAnswers::Setting setting = {
      problem_,       operands_, *stream_, host_, multiplications, options_.max_scratch_bytes,
      options_.verify};
  const auto copies =
      static_cast<int64_t>(std::clamp(options_.max_tuning_ms, 1.0, 1e4) * kCopiesPerMs);
  Result<std::unique_ptr<DeviceAnswers>> answers =
      PaysForWhole(setting, options_.max_tuning_ms) ? DeviceAnswers::CreateWhole(setting)
                                                    : DeviceAnswers::CreateSampled(setting, copies);
  if (!answers.ok() && answers.status().code() == StatusCode::kOutOfMemory && options_.verify &&
      !stream_->broken()) {
    answers = DeviceAnswers::CreateSampled(setting, copies);  // which takes less
  }
  if (!answers.ok()) return answers.TakeStatus();
  answers_ = std::move(answers.value());
  writing_ = operands_;
  writing_.c = answers_->c();
  const bool reads_transposed =
      std::any_of(contenders().begin(), contenders().end(),
                  [](const Contender& c) { return c.plan->needs_transposed_b(); });
  if (reads_transposed && writing_.b_transposed == nullptr) {
    no_transposed_b_ = MakeTransposedB();
    if (Ended()) return Status(fatal_.code(), std::string(fatal_.message()));
  }
  // One that is found later may read it too, where there is room for both.
  const size_t left = options_.max_scratch_bytes - stream_->allocated();
  const size_t reserved =
      no_transposed_b_ || problem_.b_constant == 0 ? 0 : BytesOfTransposedB(problem_);
  const bool both = reserved + DeviceTimer::BytesWanted(stream_->device()) <= left;
  Result<std::unique_ptr<DeviceTimer>> timer =
      DeviceTimer::Create(*stream_, both ? left - reserved : left);
  if (!timer.ok()) return timer.TakeStatus();
  timer_ = std::move(timer.value());
  if (options_.cold_b && timer_->CanBeCold()) caches_ = Caches::kCold;
  return Status::Ok();
}

void DeviceTuning::KeepJournal() {
  if (options_.journal == nullptr) return;
  std::vector<Candidate> candidates;
  for (const Contender& contender : contenders()) candidates.push_back(contender.candidate);
  journal_.reset();
  journal_.emplace(options_.journal, problem_, candidates);
}

Result<TuneResult> DeviceTuning::Measure(Backends backends) {
  KeepJournal();
  base_ = FindBase();
  if (Ended()) return Unmeasured("given up");
  if (base_ == kNoLane) return NobodyIsRight();
  const Contender& base = contenders()[base_];
  base_ms_ = Median(base.samples);
  if (BestSample(base) > kMostOfBudget * options_.max_tuning_ms) {
    unraced_ = true;
    return Keep(base, field_.NameOf(base) + ": one call of it takes " +
                          Milliseconds(BestSample(base)) + ", too much for a budget of " +
                          Milliseconds(options_.max_tuning_ms));
  }
  ProbeListed();
  if (!Ended()) Explore(backends);
  std::vector<size_t> racing;
  if (!Ended()) racing = ChooseFinalists();
  if (Ended()) return Unmeasured("given up");
  return HoldRace(std::move(racing));
}

size_t DeviceTuning::FindBase() {
  std::vector<size_t> order = {field_.incumbent};
  for (size_t i = 0; i < contenders().size(); ++i) {
    if (i != field_.incumbent) order.push_back(i);
  }
  size_t base = kNoLane;
  for (const size_t i : order) {
    // The default races whoever served. Past the budget only the search for a first right kernel
    // goes on.
    if (base != kNoLane && (i != 0 || sampler_.OutOfTime())) break;
    Contender& contender = contenders()[i];
    if (std::string reason = WhyNot(contender); !reason.empty()) {
      field_.Reject(contender, std::move(reason));
      continue;
    }
    double ms = 0.0;
    const bool right = RunAndCheck(contender, ms);
    if (Ended()) return kNoLane;
    if (!right || !Probe(contender, HUGE_VAL)) continue;
    if (contender.samples.empty()) contender.samples.push_back(ms);
    if (base == kNoLane) base = i;
  }
  return base;
}

}  // namespace tunableop
