// When the thread in the background may measure: it makes way for the requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "tuner/pacer.h"

namespace tunableop {

// Waits until no run is in flight, and none was for a moment; or, where runs are in flight, until
// the machine has as many idle cores as the measurement needs, and one more (not for a measurement
// on a card: idle cores say nothing of how busy that is). Gives up when `stop`
// is set or the measurement is no longer wanted; and, once the first turn has come, when the next
// does not within Hooks::patience_ns and others wait for a measurement to end.
//
// With a `hold_share` above 0 it does not starve where runs never end: after a moment in vain, new
// runs are held back until those in flight have ended, and then for about as long as that took. The
// first turn, in which nothing is timed yet, is then given without.
class IdlePacer final : public Pacer {
 public:
  struct Hooks {
    // Called often, from the thread that measures. False: the measurement is no longer wanted.
    std::function<bool()> wanted = [] { return true; };
    // When (SteadyNow) somebody last wanted to measure and could not. Null: somebody always waits.
    // Looked at with a hold share only: without, whoever waits longer waits for a pause that may
    // never come.
    const std::atomic<int64_t>* others_ns = nullptr;
    int64_t patience_ns = 5'000'000'000;
  };

  // `threads`: that the measurement takes; nothing: it is a card's. `hold_share`: of the time, at
  // most, that runs of this process are held back, by all pacers together.
  IdlePacer(const std::atomic<bool>& stop, std::optional<int> threads, double hold_share,
            Hooks hooks) noexcept
      : stop_(stop), threads_(threads), hold_share_(hold_share), hooks_(std::move(hooks)) {}
  ~IdlePacer() override { EndHold(); }
  IdlePacer(const IdlePacer&) = delete;
  IdlePacer& operator=(const IdlePacer&) = delete;

  bool WaitForTurn() noexcept override;
  bool Disturbed() const noexcept override;
  // Before another may measure, who could hold runs back himself. Idempotent.
  void EndHold() noexcept { EndHold(/*least_rest_ns=*/0); }
  // In all.
  int64_t waited_ns() const noexcept { return waited_ns_; }

 private:
  bool GoesOn() const noexcept;
  // After so long a wait that began at `begin_ns`.
  bool GivesUp(int64_t waited_ns, int64_t begin_ns) const noexcept;
  bool InHold() const noexcept;
  bool Hold() noexcept;
  void EndHold(int64_t least_rest_ns) noexcept;

  const std::atomic<bool>& stop_;
  const std::optional<int> threads_;
  const double hold_share_;
  const Hooks hooks_;
  bool begun_ = false;
  uint64_t turn_ = 0;         // RunGate::started() when the turn came
  bool beside_runs_ = false;  // the turn came for idle cores: runs are no disturbance
  int64_t waited_ns_ = 0;
  int64_t hold_begin_ns_ = 0;  // 0: none
  int64_t hold_end_ns_ = 0;
};

}  // namespace tunableop
