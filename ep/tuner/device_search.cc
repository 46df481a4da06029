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

constexpr double kListShare = 0.35;  // of the budget, until which listed candidates are probed
constexpr double kLongCall = 0.02;   // of the budget: one sample of such a call says enough
constexpr int kMostProbes = 3;

}  // namespace

DeviceTimer::Call DeviceTuning::QueueOf(const Contender& contender) const {
  return [this, plan = contender.plan] { return plan->Run(writing_, stream_->executor()); };
}

TimedCall DeviceTuning::CallOf(const Contender& contender, Caches caches) const {
  const double expected = contender.samples.empty() ? base_ms_ : BestSample(contender);
  return {contender.index,
          {},
          [this, queue = QueueOf(contender), expected, caches](int calls, double& ms) {
            return timer_->Measure(queue, calls, expected, caches, ms);
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
    return "needs a transposed copy of B";
  }
  return {};
}

bool DeviceTuning::RunAndCheck(Contender& contender, double& ms) {
  if (!sampler_.WaitForTurn() || !Expect(answers_->Prepare())) return false;
  const TimedCall first{contender.index, {}, [&](int /*calls*/, double& taken) {
                          return timer_->First(QueueOf(contender), taken);
                        }};
  if (!Accept(contender, sampler_.Once(first, ms))) return false;
  if (sampler_.stopped()) return false;
  contender.returned = true;
  if (options_.verify) {
    Result<Verifier::Verdict> verdict = answers_->Check(contender.candidate.FullName());
    if (!verdict.ok()) return Expect(verdict.TakeStatus());
    contender.error = std::max(contender.error, verdict.value().error);
    if (!verdict.value().right) {
      if (answers_->copies().Changed(*stream_)) {
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
  if (!contender.returned) {
    double ms = 0.0;
    const TimedCall first{contender.index, {}, [&](int /*calls*/, double& taken) {
                            return timer_->First(QueueOf(contender), taken);
                          }};
    if (!Accept(contender, sampler_.Once(first, ms)) || sampler_.stopped()) return false;
    contender.returned = true;
  }
  for (int i = 0; i < kMostProbes && !sampler_.OutOfTime(); ++i) {
    double ms = -1.0;
    if (!Accept(contender, sampler_.Take(CallOf(contender, caches_), 1, 0.0, ms))) return false;
    if (ms < 0.0) break;
    contender.samples.push_back(ms);
    // Far from the limit: not chance. Once more otherwise.
    if (ms > 2.0 * limit_ms || ms > kLongCall * options_.max_tuning_ms) break;
  }
  return !sampler_.stopped();
}

void DeviceTuning::ProbeListed() {
  for (size_t i = 1; i < contenders().size(); ++i) {
    Contender& contender = contenders()[i];
    if (!contender.samples.empty() || field_.IsRejected(contender.candidate)) continue;
    if (Late(kListShare)) {
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

void DeviceTuning::Explore(Backends /*backends*/) {}

}  // namespace tunableop
