// Problems that wait to be measured, and the thread that measures them when nobody is served.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "gemm/device_memory.h"
#include "gemm/problem.h"
#include "provider/per_process.h"
#include "tuner/owned_operands.h"

namespace tunableop {

struct PendingTuning {
  Problem problem;
  OwnedOperands operands;
  // Done when copies on a card are there; null: they are.
  std::shared_ptr<const DeviceEvent> ready;
  double worth_ms = 0.0;  // uses so far times the time of one: the most valuable goes first
};

// The thread starts with the first problem and sleeps while there is none. Thread-safe. In a forked
// child, where the thread is not, nothing waits and a thread of its own starts when it is needed.
class BackgroundTuner {
 public:
  struct Work {
    // Measures one problem, which may take long; milliseconds spent. Not called after `stop`, which
    // it must look at, turns true.
    std::function<double(PendingTuning&&, const std::atomic<bool>& stop)> measure;
    // Now and then, also when there is nothing to measure.
    std::function<void()> look;
  };

  // At most `max_bytes` of copies wait. `share`: of the time, at most, spent measuring.
  BackgroundTuner(Work work, size_t max_bytes, double share)
      : work_(std::move(work)), max_bytes_(max_bytes), share_(share) {}
  ~BackgroundTuner() { Stop(); }
  BackgroundTuner(const BackgroundTuner&) = delete;
  BackgroundTuner& operator=(const BackgroundTuner&) = delete;

  // Bytes that Offer would take now.
  size_t room() const;
  // False: it waits already, there is no room, Stop was called, or there is no memory or no thread
  // at present. Does not throw: a request that found something to measure is none the worse.
  bool Offer(PendingTuning pending) noexcept;
  // How many wait, the one included that the thread is at.
  size_t size() const;
  // The most valuable one, for a caller that measures it itself.
  std::optional<PendingTuning> Take();
  void Clear();

  // The thread looks around although nothing waits. Without it, it starts with the first Offer.
  // False: Stop was called, or the system refuses a thread at present.
  bool Start() noexcept;
  // While paused nothing is taken by the thread.
  void Pause(bool paused);
  // Ends the thread, at the end of the call under way; nothing is taken after that. Idempotent.
  void Stop() noexcept;

 private:
  struct AtWork;
  void Loop();
  std::optional<PendingTuning> TakeLocked();

  const Work work_;
  const size_t max_bytes_;
  const double share_;
  struct Shared {  // with the thread
    std::mutex mutex;
    std::condition_variable wake;
    std::list<PendingTuning> queue;
    size_t bytes = 0;
    bool at_work = false;
    bool paused = false;
    std::thread thread;
  };
  const PerProcess<Shared> shared_;
  std::atomic<bool> stop_{false};
};

}  // namespace tunableop
