// Who is being served: runs in flight, over all sessions of the process, so that measuring in the
// background keeps out of their way.
#pragma once

#include <atomic>
#include <cstdint>

namespace tunableop {

// Thread-safe. Two atomic additions a run.
class RunGate {
 public:
  // Waits while runs are held back, unless the thread is in a run already: that one could not end.
  void Started() noexcept;
  void Ended() noexcept;

  int in_flight() const noexcept { return in_flight_.load(std::memory_order_acquire); }
  // Grows with each run that starts.
  uint64_t started() const noexcept { return started_.load(std::memory_order_acquire); }
  // Nanoseconds since the last run ended; 0 while one is in flight.
  int64_t IdleNs() const noexcept;

  // Runs that start from now on are held back until `until_ns` (SteadyNow) or EndHold: a holder
  // that is gone holds nobody up for ever. False: others hold, or did so lately.
  bool TryHold(int64_t until_ns) noexcept;
  // By the holder. The hold ends at `until_ns` instead.
  void HoldUntil(int64_t until_ns) noexcept;
  // By the holder. Nobody holds runs back again before `next_ns`.
  void EndHold(int64_t next_ns) noexcept;
  // How long the next hold waits for runs in flight, as the last ones taught; 0 at first.
  int64_t drain_ns() const noexcept { return drain_ns_.load(std::memory_order_relaxed); }
  void set_drain_ns(int64_t ns) noexcept { drain_ns_.store(ns, std::memory_order_relaxed); }

 private:
  bool held() const noexcept;

  std::atomic<int> in_flight_{0};
  std::atomic<uint64_t> started_{0};
  std::atomic<int64_t> last_end_ns_{0};
  std::atomic<int64_t> held_until_ns_{0};  // 0: runs are not held back
  std::atomic<int64_t> next_hold_ns_{0};
  std::atomic<int64_t> drain_ns_{0};
};

RunGate& Runs();

// A run, while this lives.
class ServedRun {
 public:
  ServedRun() noexcept { Runs().Started(); }
  ~ServedRun() { Runs().Ended(); }
  ServedRun(const ServedRun&) = delete;
  ServedRun& operator=(const ServedRun&) = delete;
};

// Cores of this machine that were idle in the last tenth of a second or so; 0 where the system does
// not say. Thread-safe.
double IdleCores() noexcept;

}  // namespace tunableop
