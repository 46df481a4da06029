// One event for each GEMM call in ONNX Runtime's profile: which kernel ran, and for which problem.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/ort_c_api.h"
#include "gemm/backend.h"
#include "gemm/status.h"

namespace tunableop {

// A GEMM call that ended. Times are of SteadyNow() (tuner/clock.h).
struct GemmEvent {
  Problem problem;
  Candidate kernel;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  bool hit = false;  // the cache knew the kernel
  int32_t thread = 0;
};

// Collects the events of one session while somebody profiles it. Thread-safe.
class ProfilerSink {
 public:
  // Whether Run is to be timed: one relaxed load, for the hot path.
  bool enabled() const noexcept { return watchers_.load(std::memory_order_relaxed) > 0; }

  // Takes a lock and may allocate; kMaxEvents are kept, later ones only counted. Drops the event
  // when there is no memory.
  void Add(const Problem& problem, const Candidate& kernel, int64_t start_ns, int64_t duration_ns,
           bool hit) noexcept;

  // Several may watch at once, each from its own moment on.
  void Watch() noexcept;
  struct Events {
    std::vector<GemmEvent> events;
    uint64_t dropped = 0;  // since the first of those who watch now began
  };
  // The events that began at `since_ns` or later. Ends one Watch, even where it throws for want of
  // memory; the last one forgets the events.
  Events EndWatch(int64_t since_ns);

  // About 20 MB. ONNX Runtime itself keeps a million events.
  static constexpr size_t kMaxEvents = 100'000;

 private:
  std::atomic<int> watchers_{0};
  std::mutex mutex_;
  std::vector<GemmEvent> events_;
  uint64_t dropped_ = 0;
};

// What OrtEp::CreateProfiler gives: belongs to ONNX Runtime, which releases it, perhaps after the
// provider; it holds `sink` (of the session's state) until then. Events are of category KERNEL,
// named by the kernel's full name, with the arguments m, n, k, batch, problem, hit ("1" or "0") and
// library. Needs interface version 25.
OrtEpProfilerImpl* MakeProfiler(std::shared_ptr<ProfilerSink> sink);

}  // namespace tunableop
