#include "tuner/sampler.h"

#include <algorithm>
#include <cmath>

namespace tunableop {
namespace {

constexpr double kSampleMs = 0.020;

}  // namespace

int CallsPerSample(double ms_per_call) {
  if (ms_per_call >= kSampleMs) return 1;
  return static_cast<int>(std::ceil(kSampleMs / std::max(ms_per_call, kSampleMs / 1000.0)));
}

Status Sampler::Once(const std::function<Status()>& call, double& ms) {
  const int64_t begin = Now();
  Status status = call();
  ms = static_cast<double>(Now() - begin) * 1e-6;
  return status;
}

Status Sampler::Take(const std::function<Status()>& call, int calls, double expected_ms,
                     double& ms) {
  ms = -1.0;
  const int64_t begin = Now();
  if (begin + static_cast<int64_t>(expected_ms * 1e6) >= deadline_ns_) return Status::Ok();
  int64_t end = begin;
  int done = 0;
  while (done < calls) {
    TUNABLEOP_RETURN_IF_ERROR(call());
    ++done;
    end = Now();
    if (end >= deadline_ns_) break;
  }
  ms = static_cast<double>(end - begin) * 1e-6 / done;
  return Status::Ok();
}

}  // namespace tunableop
