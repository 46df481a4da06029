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
  if (stopped()) return false;
  if (pacer_ == nullptr) return true;
  const int64_t begin = now_();
  cancelled_ = !pacer_->WaitForTurn();
  waited_ns_ += now_() - begin;
  return !cancelled_;
}

bool Sampler::HasTimeFor(double expected_ms) const {
  return Now() + static_cast<int64_t>(expected_ms * 1e6) < deadline_ns_;
}

Status Sampler::Once(const TimedCall& call, double& ms) {
  ms = -1.0;
  if (!WaitForTurn()) return Status::Ok();
  if (before_call_ && !call.measure) before_call_();
  const CallScope scope(journal_, call.index);
  if (call.measure) return call.measure(1, ms);
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
    if (!HasTimeFor(expected_ms)) break;
    double taken_ms = -1.0;
    TUNABLEOP_RETURN_IF_ERROR(TakeOnce(call, calls, expected_ms, taken_ms));
    if (taken_ms >= 0.0) ms = taken_ms;
    if (!Disturbed()) break;
  }
  return Status::Ok();
}

Status Sampler::TakeOnce(const TimedCall& call, int calls, double expected_ms, double& ms) {
  const CallScope scope(journal_, call.index);
  if (call.measure) return call.measure(calls, ms);
  int64_t total = 0;
  int done = 0;
  int64_t begin = Now();
  while (done < calls) {
    if (before_call_) {
      before_call_();
      if (!HasTimeFor(expected_ms)) break;
      begin = Now();
    }
    TUNABLEOP_RETURN_IF_ERROR(call.run());
    ++done;
    const int64_t end = Now();
    total += end - begin;
    begin = end;
    if (end >= deadline_ns_) break;
  }
  if (done != 0) ms = static_cast<double>(total) * 1e-6 / done;
  return Status::Ok();
}

}  // namespace tunableop
