#include "provider/idle_pacer.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "provider/run_gate.h"
#include "tuner/clock.h"

namespace tunableop {
namespace {

// ONNX Runtime's threads spin for about a millisecond after a run before they sleep.
constexpr int64_t kQuietNs = 2'000'000;
constexpr auto kLook = std::chrono::microseconds(500);
// So long a turn of its own accord is waited for before runs are held back.
constexpr int64_t kStarvingNs = 20'000'000;
// Runs in flight are waited for so long at first; twice as long each time that they did not end,
// and twice as long as it took when they did.
constexpr int64_t kFirstDrainNs = 50'000'000;
constexpr int64_t kMostDrainNs = 2'000'000'000;
// Where they last longer, a hold only costs.
constexpr int64_t kInVainNs = 600'000'000'000;
// A hold pays for the wait that it cost by as long a turn, within these bounds.
constexpr int64_t kShortestTurnNs = 8'000'000;
constexpr int64_t kLongestTurnNs = 100'000'000;

}  // namespace

bool IdlePacer::WaitForTurn() noexcept {
  if (InHold()) return true;
  EndHold();
  const int64_t begin = SteadyNow();
  bool come = false;
  while (GoesOn()) {
    turn_ = Runs().started();
    const bool quiet = Runs().IdleNs() >= kQuietNs;
    // A core more than the measurement takes: the runs may be about to need what they leave idle.
    const bool beside = !quiet && threads_.has_value() && IdleCores() >= *threads_ + 1;
    beside_runs_ = beside;
    come = quiet || beside;
    const int64_t waited = SteadyNow() - begin;
    if (!come && hold_share_ > 0.0 && waited > kStarvingNs) come = !begun_ || Hold();
    if (come || (begun_ && GivesUp(waited, begin))) break;
    std::this_thread::sleep_for(kLook);
  }
  waited_ns_ += SteadyNow() - begin;
  begun_ = begun_ || come;
  return come;
}

bool IdlePacer::Disturbed() const noexcept {
  if (beside_runs_) return false;
  return Runs().in_flight() > 0 || Runs().started() != turn_;
}

bool IdlePacer::GoesOn() const noexcept {
  return !stop_.load(std::memory_order_acquire) && hooks_.wanted();
}

bool IdlePacer::GivesUp(int64_t waited_ns, int64_t begin_ns) const noexcept {
  if (waited_ns <= hooks_.patience_ns) return false;
  // Turns come for certain, but seldom where runs are long: what was measured so far is kept.
  return hold_share_ == 0.0 || hooks_.others_ns == nullptr || hooks_.others_ns->load() > begin_ns;
}

bool IdlePacer::InHold() const noexcept {
  return hold_begin_ns_ != 0 && SteadyNow() < hold_end_ns_ && !Disturbed() && GoesOn();
}

bool IdlePacer::Hold() noexcept {
  RunGate& gate = Runs();
  const int64_t begin = SteadyNow();
  const int64_t most_drain = std::clamp(gate.drain_ns(), kFirstDrainNs, kMostDrainNs);
  const int64_t deadline = begin + most_drain;
  if (!gate.TryHold(deadline)) return false;
  hold_begin_ns_ = begin;
  hold_end_ns_ = deadline;
  while (gate.IdleNs() < kQuietNs) {
    const bool in_vain = SteadyNow() >= deadline;
    if (in_vain || !GoesOn()) {
      if (in_vain) gate.set_drain_ns(2 * most_drain);
      EndHold(in_vain && most_drain == kMostDrainNs ? kInVainNs : 0);
      return false;
    }
    std::this_thread::sleep_for(kLook / 5);
  }
  const int64_t now = SteadyNow();
  gate.set_drain_ns(2 * (now - begin));
  hold_end_ns_ = now + std::clamp(now - begin, kShortestTurnNs, kLongestTurnNs);
  gate.HoldUntil(hold_end_ns_);
  turn_ = gate.started();
  return true;
}

void IdlePacer::EndHold(int64_t least_rest_ns) noexcept {
  if (hold_begin_ns_ == 0) return;
  const int64_t now = SteadyNow();
  const auto took = static_cast<double>(std::min(now, hold_end_ns_) - hold_begin_ns_);
  const auto rest = static_cast<int64_t>(took * (1.0 / hold_share_ - 1.0));
  Runs().EndHold(now + std::max(rest, least_rest_ns));
  hold_begin_ns_ = 0;
}

}  // namespace tunableop
