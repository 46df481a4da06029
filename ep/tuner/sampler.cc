#include "tuner/sampler.h"

#include <algorithm>
#include <cmath>

#include "tuner/journal_scope.h"

namespace tunableop {
namespace {

constexpr double kSampleMs = 0.020;
constexpr int kMostRetakes = 3;

}  // namespace

int CallsPerSample(double ms_per_call) {
  if (ms_per_call >= kSampleMs) return 1;
  return static_cast<int>(std::ceil(kSampleMs / std::max(ms_per_call, kSampleMs / 1000.0)));
}

bool Sampler::WaitForTurn() {
  if (cancelled_) return false;
  if (pacer_ == nullptr) return true;
  const int64_t begin = now_();
  cancelled_ = !pacer_->WaitForTurn();
  waited_ns_ += now_() - begin;
  return !cancelled_;
}

Status Sampler::Once(const TimedCall& call, double& ms) {
  ms = -1.0;
  if (!WaitForTurn()) return Status::Ok();
  const CallScope scope(journal_, call.index);
  const int64_t begin = Now();
  Status status = call.run();
  ms = static_cast<double>(Now() - begin) * 1e-6;
  return status;
}

Status Sampler::Take(const TimedCall& call, int calls, double expected_ms, double& ms) {
  ms = -1.0;
  for (int i = 0; i <= kMostRetakes; ++i) {
    if (!WaitForTurn()) {
      ms = -1.0;
      break;
    }
    if (Now() + static_cast<int64_t>(expected_ms * 1e6) >= deadline_ns_) break;
    TUNABLEOP_RETURN_IF_ERROR(TakeOnce(call, calls, ms));
    if (!Disturbed()) break;
  }
  return Status::Ok();
}

Status Sampler::TakeOnce(const TimedCall& call, int calls, double& ms) {
  const CallScope scope(journal_, call.index);
  const int64_t begin = Now();
  int64_t end = begin;
  int done = 0;
  while (done < calls) {
    if (Status status = call.run(); !status.ok()) {
      ms = -1.0;
      return status;
    }
    ++done;
    end = Now();
    if (end >= deadline_ns_) break;
  }
  ms = static_cast<double>(end - begin) * 1e-6 / done;
  return Status::Ok();
}

}  // namespace tunableop
