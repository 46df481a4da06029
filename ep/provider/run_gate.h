// Who is being served: runs in flight, over all sessions of the process, so that measuring in the
// background keeps out of their way.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "tuner/pacer.h"

namespace tunableop {

// Thread-safe. Two atomic additions a run.
class RunGate {
 public:
  void Started() noexcept;
  void Ended() noexcept;

  int in_flight() const noexcept { return in_flight_.load(std::memory_order_acquire); }
  // Grows with each run that starts.
  uint64_t started() const noexcept { return started_.load(std::memory_order_acquire); }
  // Nanoseconds since the last run ended; 0 while one is in flight.
  int64_t IdleNs() const noexcept;

 private:
  std::atomic<int> in_flight_{0};
  std::atomic<uint64_t> started_{0};
  std::atomic<int64_t> last_end_ns_{0};
};

RunGate& Runs();

// Waits until no run is in flight, and none was for a moment; or, where runs are in flight, until
// the machine has as many idle cores as the measurement needs, and one more (not for a measurement
// on a card: idle cores say nothing of how busy that is). Gives up when `stop`
// is set; and, once the first turn has come, when the next does not within kPatienceNs, since
// others wait for a measurement to end.
class IdlePacer final : public Pacer {
 public:
  // `threads`: that the measurement takes; nothing: it is a card's.
  IdlePacer(const std::atomic<bool>& stop, std::optional<int> threads) noexcept
      : stop_(stop), threads_(threads) {}
  bool WaitForTurn() noexcept override;
  bool Disturbed() const noexcept override;
  // In all.
  int64_t waited_ns() const noexcept { return waited_ns_; }

 private:
  const std::atomic<bool>& stop_;
  const std::optional<int> threads_;
  static constexpr int64_t kPatienceNs = 5'000'000'000;
  bool begun_ = false;
  uint64_t turn_ = 0;         // RunGate::started() when the turn came
  bool beside_runs_ = false;  // the turn came for idle cores: runs are no disturbance
  int64_t waited_ns_ = 0;
};

// Cores of this machine that were idle in the last tenth of a second or so; 0 where the system does
// not say. Thread-safe.
double IdleCores() noexcept;

}  // namespace tunableop
