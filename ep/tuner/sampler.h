// Takes samples: the mean time of a batch of calls that is long enough for the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "gemm/status.h"
#include "tuner/clock.h"

namespace tunableop {

// Calls for one sample of at least 20 us.
int CallsPerSample(double ms_per_call);

// Used by the one thread that measures.
class Sampler {
 public:
  explicit Sampler(NowFn now) : now_(std::move(now)) {}
  void SetDeadline(int64_t ns) { deadline_ns_ = ns; }

  int64_t Now() const { return now_(); }
  bool OutOfTime() const { return Now() >= deadline_ns_; }

  // Milliseconds of one call, whatever the deadline.
  Status Once(const std::function<Status()>& call, double& ms);

  // Milliseconds of a call, the mean over `calls`; -1 when there is no time: no call starts after
  // the deadline, nor the first when it is known (`expected_ms`) to end after it. The error of a
  // call that fails.
  Status Take(const std::function<Status()>& call, int calls, double expected_ms, double& ms);

 private:
  const NowFn now_;
  int64_t deadline_ns_ = 0;
};

}  // namespace tunableop
