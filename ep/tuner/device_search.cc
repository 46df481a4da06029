#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "tuner/deny_list.h"
#include "tuner/device_tuning.h"
#include "tuner/statistics.h"
#include "tuner/trial.h"

namespace tunableop {
namespace {

constexpr double kLongCall = 0.02;  // of the budget: one sample of such a call says enough
constexpr int kMostProbes = 3;
constexpr double kFarTooLong = 10.0;  // times the base's

// Of one search. The shares are of the budget, until which something goes on.
struct Search {
  double list_share;
  double random_share;
  double share;  // all of it
  size_t draws;  // of each library, at random, `batch` at a time
  size_t batch;
  size_t neighbours;  // in a round
  int rounds;
};

constexpr Search kQuick = {0.45, 0.5, 0.58, 32, 8, 16, 3};
constexpr Search kThorough = {0.4, 0.6, 0.75, 4096, 64, 64, 16};

const Search& SearchOf(const TunerOptions& options) {
  return options.candidates == CandidateScope::kAll ? kThorough : kQuick;
}

}  // namespace

DeviceTimer::Call DeviceTuning::QueueOf(const Contender& contender) const {
  return [this, plan = contender.plan] { return plan->Run(writing_, stream_->executor()); };
}

TimedCall DeviceTuning::CallOf(const Contender& contender, Caches caches) {
  return CallOf(contender, caches, contender.samples.empty() ? base_ms_ : BestSample(contender));
}

TimedCall DeviceTuning::CallOf(const Contender& contender, Caches caches, double expected_ms) {
  return {contender.index,
          {},
          [this, queue = QueueOf(contender), expected_ms, caches](int calls, double& ms) {
            Status status = timer_->Measure(queue, calls, expected_ms, caches, ms);
            // Nobody else is to be called, nor to be blamed.
            if (stream_->broken()) sampler_.Stop();
            return status;
          }};
}

TimedCall DeviceTuning::FirstCallOf(const Contender& contender) {
  return {contender.index, {}, [this, queue = QueueOf(contender)](int /*calls*/, double& ms) {
            return timer_->First(queue, ms);
          }};
}

bool DeviceTuning::Expect(Status status) {
  if (!status.ok() && fatal_.ok()) fatal_ = std::move(status);
  return fatal_.ok();
}

bool DeviceTuning::Accept(const Contender& contender, const Status& status) {
  if (status.ok()) return true;
  const std::string reason(status.message());
  if (!stream_->broken()) {
    field_.Reject(contender, "returned an error: " + reason);
    return false;
  }
  // A card may be lost for other reasons than the kernel that was called last, and without its
  // default kernel a session has none.
  if (options_.remember_wrong && (stream_->hung() || contender.index != 0)) {
    Deny(contender.candidate, contender.backend->identity(),
         stream_->hung() ? reason : "the card was lost in its call: " + reason);
  }
  return Expect(Status(StatusCode::kInternal, contender.candidate.FullName() + ": " + reason));
}

std::string DeviceTuning::WhyNot(const Contender& contender) {
  const size_t wanted = contender.candidate.workspace_bytes;
  if (wanted > stream_->workspace_bytes()) {
    return "needs a workspace of " + std::to_string(wanted) + " bytes, there are " +
           std::to_string(stream_->workspace_bytes());
  }
  if (contender.plan->needs_transposed_b() && writing_.b_transposed == nullptr) {
    if (!no_transposed_b_) no_transposed_b_ = MakeTransposedB();
    if (!no_transposed_b_->empty()) return "needs a transposed copy of B: " + *no_transposed_b_;
  }
  return {};
}

bool DeviceTuning::RunAndCheck(Contender& contender, double& ms) {
  if (!sampler_.WaitForTurn() || !Expect(answers_->Prepare())) return false;
  if (!Accept(contender, sampler_.Once(FirstCallOf(contender), ms))) return false;
  if (sampler_.stopped()) return false;
  contender.returned = true;
  if (options_.verify) {
    Result<Verifier::Verdict> verdict = answers_->Check(contender.candidate.FullName());
    if (!verdict.ok()) return Expect(verdict.TakeStatus());
    contender.error = std::max(contender.error, verdict.value().error);
    if (!verdict.value().right) {
      if (answers_->OperandsChanged()) {
        changed_ = true;
        sampler_.Stop();  // whoever is right now is so by luck
      } else {
        field_.RejectWrong(contender, verdict.value().reason);
      }
      return false;
    }
  }
  contender.right = true;
  return true;
}

bool DeviceTuning::Probe(Contender& contender, double limit_ms) {
  double expected_ms = base_ms_;
  if (!contender.returned) {
    double ms = 0.0;
    if (!Accept(contender, sampler_.Once(FirstCallOf(contender), ms)) || sampler_.stopped()) {
      return false;
    }
    contender.returned = true;
    // Hopeless, or code was loaded: that it takes less will be seen.
    if (ms > kFarTooLong * base_ms_) expected_ms = ms;
  }
  for (int i = 0; i < kMostProbes && !sampler_.OutOfTime(); ++i) {
    double ms = -1.0;
    const int64_t begin = sampler_.Now();
    const TimedCall call = CallOf(contender, caches_, expected_ms);
    if (!Accept(contender, sampler_.Take(call, 1, 0.0, ms))) return false;
    if (ms < 0.0) break;
    expected_ms = ms;
    if (base_ms_ == 0.0) sample_ms_ = static_cast<double>(sampler_.Now() - begin) * 1e-6;
    contender.samples.push_back(ms);
    if (ms > kLongCall * options_.max_tuning_ms) break;
    if (i >= 1 && BestSample(contender) > limit_ms) break;  // any one may be disturbed
  }
  return !sampler_.stopped();
}

void DeviceTuning::ProbeListed() {
  for (size_t i = 0; i < contenders().size(); ++i) {
    Contender& contender = contenders()[i];
    if (contender.returned || field_.IsRejected(contender.candidate)) continue;
    if (Late(SearchOf(options_).list_share)) {
      unraced_ = true;  // unless somebody does race
      return;
    }
    if (std::string reason = WhyNot(contender); !reason.empty()) {
      field_.Reject(contender, std::move(reason));
      continue;
    }
    Probe(contender, kProbeLimit * base_ms_);
    if (Ended()) return;
  }
}

std::vector<TimedCandidate> DeviceTuning::Known(std::string_view library, bool timed) const {
  std::vector<TimedCandidate> known;
  for (const Contender& contender : field_.contenders) {
    if (contender.candidate.library != library) continue;
    const bool counts =
        timed && !contender.samples.empty() && !field_.IsRejected(contender.candidate);
    known.push_back({contender.candidate, counts ? BestSample(contender) : 0.0});
  }
  for (const Candidate& candidate : refused_) {
    if (candidate.library == library) known.push_back({candidate, 0.0});
  }
  for (const Rejection& rejection : field_.rejected) {
    if (rejection.candidate.library == library) known.push_back({rejection.candidate, 0.0});
  }
  return known;
}

bool DeviceTuning::ProbeMore(const std::shared_ptr<const Backend>& backend,
                             const std::vector<Candidate>& candidates, double share) {
  const size_t first = contenders().size();
  for (const Candidate& candidate : candidates) {
    if (Late(share)) break;
    if (!AddContender(field_, problem_, backend, candidate, options_).empty()) {
      refused_.push_back(candidate);
    }
  }
  KeepJournal();
  for (size_t i = first; i < contenders().size(); ++i) {
    if (Late(share)) return false;
    Contender& contender = contenders()[i];
    if (std::string reason = WhyNot(contender); !reason.empty()) {
      field_.Reject(contender, std::move(reason));
      continue;
    }
    Probe(contender, kProbeLimit * base_ms_);
    if (Ended()) return false;
  }
  return !Late(share);
}

double DeviceTuning::BestOf(std::string_view library) const {
  double best = HUGE_VAL;
  for (const TimedCandidate& known : Known(library, true)) {
    if (known.ms > 0.0) best = std::min(best, known.ms);
  }
  return best;
}

void DeviceTuning::Explore(Backends backends) {
  const Search search = SearchOf(options_);
  const uint64_t seed = Hash(problem_);
  // At random first, each library in its turn, until none has more.
  bool more = true;
  for (size_t draw = 0; more && draw < search.draws; draw += search.batch) {
    more = false;
    for (const std::shared_ptr<const Backend>& backend : backends) {
      if (backend == nullptr) continue;
      if (Late(search.random_share)) break;
      const std::vector<Candidate> found =
          backend->Explore(problem_, Known(backend->library(), false), seed + draw, search.batch);
      more = more || !found.empty();
      ProbeMore(backend, found, search.random_share);
      if (Ended()) return;
    }
  }
  // Then around the best, as long as that helps.
  for (const std::shared_ptr<const Backend>& backend : backends) {
    if (backend == nullptr) continue;
    double best = BestOf(backend->library());
    for (int round = 0; round < search.rounds && best < HUGE_VAL; ++round) {
      if (Late(search.share)) return;
      const std::vector<Candidate> found =
          backend->Explore(problem_, Known(backend->library(), true),
                           seed + static_cast<uint64_t>(round), search.neighbours);
      if (found.empty()) break;
      ProbeMore(backend, found, search.share);
      if (Ended()) return;
      const double now = BestOf(backend->library());
      if (now >= best) break;
      best = now;
    }
  }
}

}  // namespace tunableop
