// When the thread in the background may measure: it makes way for the requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "tuner/pacer.h"

namespace tunableop {

// Waits until no run is in flight, and none was for a moment; or, where runs are in flight, until
// the machine has as many idle cores as the measurement needs, and one more (not for a measurement
// on a card: idle cores say nothing of how busy that is). Gives up when `stop`
// is set; and, once the first turn has come, when the next does not within kPatienceNs, since
// others wait for a measurement to end.
//
// With a `hold_share` above 0 it does not starve where runs never end: after a moment in vain, new
// runs are held back until those in flight have ended, and then for about as long as that took. The
// first turn, in which nothing is timed yet, is then given without.
class IdlePacer final : public Pacer {
 public:
  // `threads`: that the measurement takes; nothing: it is a card's. `hold_share`: of the time, at
  // most, that runs of this process are held back, by all pacers together.
  IdlePacer(const std::atomic<bool>& stop, std::optional<int> threads, double hold_share) noexcept
      : stop_(stop), threads_(threads), hold_share_(hold_share) {}
  ~IdlePacer() { EndHold(); }
  IdlePacer(const IdlePacer&) = delete;
  IdlePacer& operator=(const IdlePacer&) = delete;

  bool WaitForTurn() noexcept override;
  bool Disturbed() const noexcept override;
  // In all.
  int64_t waited_ns() const noexcept { return waited_ns_; }

 private:
  bool InHold() const noexcept;
  bool Hold() noexcept;
  void EndHold() noexcept;

  const std::atomic<bool>& stop_;
  const std::optional<int> threads_;
  const double hold_share_;
  bool begun_ = false;
  uint64_t turn_ = 0;         // RunGate::started() when the turn came
  bool beside_runs_ = false;  // the turn came for idle cores: runs are no disturbance
  int64_t waited_ns_ = 0;
  int64_t hold_begin_ns_ = 0;  // 0: none
  int64_t hold_end_ns_ = 0;
  int64_t most_drain_ns_ = 0;
};

}  // namespace tunableop
