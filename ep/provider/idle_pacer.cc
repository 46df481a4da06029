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
constexpr int64_t kPatienceNs = 5'000'000'000;
// So long a turn of its own accord is waited for before runs are held back.
constexpr int64_t kStarvingNs = 20'000'000;
// Runs in flight are waited for so long at first; twice as long each time that they did not end.
constexpr int64_t kFirstDrainNs = 50'000'000;
constexpr int64_t kMostDrainNs = 2'000'000'000;
// A hold pays for the wait that it cost by as long a turn, within these bounds.
constexpr int64_t kShortestTurnNs = 8'000'000;
constexpr int64_t kLongestTurnNs = 100'000'000;

}  // namespace

bool IdlePacer::WaitForTurn() noexcept {
  if (InHold()) return true;
  EndHold();
  const int64_t begin = SteadyNow();
  bool come = false;
  while (!stop_.load(std::memory_order_acquire)) {
    turn_ = Runs().started();
    const bool quiet = Runs().IdleNs() >= kQuietNs;
    // A core more than the measurement takes: the runs may be about to need what they leave idle.
    const bool beside = !quiet && threads_.has_value() && IdleCores() >= *threads_ + 1;
    beside_runs_ = beside;
    come = quiet || beside;
    const int64_t waited = SteadyNow() - begin;
    if (!come && hold_share_ > 0.0 && waited > kStarvingNs) come = !begun_ || Hold();
    if (come || (begun_ && waited > kPatienceNs)) break;
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

bool IdlePacer::InHold() const noexcept {
  return hold_begin_ns_ != 0 && SteadyNow() < hold_end_ns_ && !Disturbed() && !stop_.load();
}

bool IdlePacer::Hold() noexcept {
  RunGate& gate = Runs();
  const int64_t begin = SteadyNow();
  most_drain_ns_ = std::clamp(2 * most_drain_ns_, kFirstDrainNs, kMostDrainNs);
  const int64_t deadline = begin + most_drain_ns_;
  if (!gate.TryHold(deadline)) {
    most_drain_ns_ /= 2;
    return false;
  }
  hold_begin_ns_ = begin;
  hold_end_ns_ = deadline;
  while (gate.IdleNs() < kQuietNs) {
    if (stop_.load(std::memory_order_acquire) || SteadyNow() >= deadline) {
      EndHold();
      return false;
    }
    std::this_thread::sleep_for(kLook / 5);
  }
  const int64_t now = SteadyNow();
  most_drain_ns_ = 0;
  hold_end_ns_ = now + std::clamp(now - begin, kShortestTurnNs, kLongestTurnNs);
  gate.HoldUntil(hold_end_ns_);
  turn_ = gate.started();
  return true;
}

void IdlePacer::EndHold() noexcept {
  if (hold_begin_ns_ == 0) return;
  const int64_t now = SteadyNow();
  const auto took = static_cast<double>(std::min(now, hold_end_ns_) - hold_begin_ns_);
  Runs().EndHold(now + static_cast<int64_t>(took * (1.0 / hold_share_ - 1.0)));
  hold_begin_ns_ = 0;
}

}  // namespace tunableop
