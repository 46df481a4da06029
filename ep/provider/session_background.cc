// SessionState: what waits to be measured, when nobody is served or on demand, and what has to be
// measured again.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "provider/gpu/graph_run.h"
#include "provider/idle_pacer.h"
#include "provider/processors.h"
#include "provider/run_gate.h"
#include "provider/session_state.h"
#include "provider/steady_ms.h"
#include "tuner/clock.h"
#include "tuner/device_copies.h"
#include "tuner/measure_pool.h"
#include "tuner/staleness.h"

namespace tunableop {
namespace {

constexpr int64_t kLookIntervalMs = 1000;
constexpr int64_t kPutOffNs = 1'000'000'000;
constexpr int64_t kNoMemoryNs = 10'000'000'000;
// What a measurement takes, in calls of the default kernel: some 24 rounds of 8 candidates.
constexpr double kCallsOfATuning = 200.0;
constexpr double kShortestSampleMs = 0.02;
// Of problems that were only recorded: an ordinary core's, to set them beside those that were
// timed.
constexpr double kFlopsPerMs = 5e7;
// Somebody else of the process measures.
constexpr auto kWhileOthersMeasure = std::chrono::milliseconds(5);

// The most that measuring a problem whose call takes `ms` may cost.
double CostMs(double ms, double max_tuning_ms) noexcept {
  return std::min(max_tuning_ms, kCallsOfATuning * std::max(ms, kShortestSampleMs));
}

}  // namespace

void SessionState::ConsiderTuning(const Entry& entry, const Problem& problem,
                                  const Operands& operands, Executor& executor,
                                  const GemmNode& node) noexcept {
  const bool on_demand = collecting_.load(std::memory_order_relaxed);
  if (!Measures() || entry.notes.queued.load(std::memory_order_relaxed)) return;
  if (!on_demand && IsPutOff(entry)) return;
  const auto uses = static_cast<double>(entry.notes.uses.load(std::memory_order_relaxed));
  const double ms = static_cast<double>(entry.notes.nanoseconds.load(std::memory_order_relaxed)) *
                    1e-6 / std::max(uses, 1.0);
  if (!on_demand) {
    // The most that a better kernel could save so far is all the time it took.
    // Runs of a graph are not seen here any more, and whoever captures one wants many.
    const bool repays = uses * ms >= CostMs(ms, options_.tuner.max_tuning_ms);
    if (!entry.tuned && !repays && CurrentGraphRun() == nullptr) return;
    // Before anything is copied: a spent budget would have it thrown away.
    if (const std::optional<Fallback> exhausted = budget_.Exhausted()) {
      entry.notes.reason.store(static_cast<uint8_t>(*exhausted));
      entry.notes.next_try_ns.store(SteadyNow() + kPutOffNs, std::memory_order_relaxed);
      return;
    }
  }
  if (IsCapturing(executor)) return;
  if (entry.notes.queued.exchange(true)) return;
  if (Queue(entry, problem, operands, executor, node, uses * ms)) {
    entry.notes.reason.store(static_cast<uint8_t>(Fallback::kWaiting), std::memory_order_relaxed);
    entry.notes.attention.store(false, std::memory_order_relaxed);
    return;
  }
  entry.notes.queued.store(false);
  entry.notes.next_try_ns.store(SteadyNow() + kPutOffNs, std::memory_order_relaxed);
}

bool SessionState::Queue(const Entry& entry, const Problem& problem, const Operands& operands,
                         Executor& executor, const GemmNode& node, double worth_ms) noexcept {
  try {
    if (entry.tuned) {
      worth_ms = entry.record.winner_ms * static_cast<double>(UsesOf(entry.hash));
    }
    Result<PendingTuning> copy = CopyForLater(problem, operands, executor, node);
    if (!copy.ok()) {
      if (background_.size() == 0) {
        Note(std::string(copy.status().message()) + "; not measured");
        entry.notes.reason.store(static_cast<uint8_t>(Fallback::kOutOfMemory),
                                 std::memory_order_relaxed);
      }
      return false;
    }
    copy.value().worth_ms = worth_ms;
    return background_.Offer(std::move(copy).value());
  } catch (const std::bad_alloc&) {
    return false;  // the request itself has its answer already
  }
}

void SessionState::Release(const Problem& problem, int64_t for_ns) noexcept {
  const SessionCache::ReadGuard guard;
  const Entry* entry = cache_.Find(problem);
  if (entry == nullptr) return;
  entry->notes.next_try_ns.store(SteadyNow() + for_ns, std::memory_order_relaxed);
  // A choice that was to be measured again still is.
  if (entry->tuned) entry->notes.attention.store(true);
  entry->notes.queued.store(false);
}

Result<std::shared_ptr<const Entry>> SessionState::MeasurePending(const PendingTuning& pending,
                                                                  IdlePacer* pacer) {
  try {
    std::shared_ptr<const Entry> serving;
    for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
      if (entry->record.problem == pending.problem && entry->tuned) serving = entry;
    }
    How how;
    how.pacer = pacer;
    how.with_stock = true;
    how.serving = serving.get();
    if (target_.is_gpu()) return MeasurePendingOnCard(pending, how);
    // Threads for this measurement only.
    MeasurePool pool(std::max<int>(1, pending.problem.threads));
    return Measure(pending.problem, pending.operands.view(), pool, how);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, "out of memory while measuring");
  } catch (const std::system_error& error) {
    return Status(StatusCode::kOutOfMemory,
                  std::string("no threads to measure with: ") + error.what());
  }
}

double SessionState::MeasureInBackground(PendingTuning&& pending, const std::atomic<bool>& stop) {
  const Problem problem = pending.problem;
  const auto may_measure = [&] { return Measures() && !budget_.Exhausted(); };
  IdlePacer::Hooks hooks;
  hooks.wanted = may_measure;
  hooks.others_ns = &MeasuringWanted();
  IdlePacer pacer(stop, target_.is_gpu() ? std::nullopt : std::optional<int>(problem.threads),
                  options_.background_hold_share, std::move(hooks));
  // Waiting for the first turn holds nothing up; once it has begun, others wait. It may take hours,
  // in which the mode may change and the budget end.
  if (!may_measure() || !pacer.WaitForTurn() || !may_measure()) {
    Release(problem, kPutOffNs);
    return 0.0;
  }
  const auto again = [&] {
    if (!background_.Offer(std::move(pending))) Release(problem, kPutOffNs);
  };
  std::unique_lock measuring(Measuring(), std::try_to_lock);
  if (!measuring.owns_lock()) {
    again();
    std::this_thread::sleep_for(kWhileOthersMeasure);
    return 0.0;
  }
  const int64_t begin = SteadyNow() - pacer.waited_ns();
  Result<std::shared_ptr<const Entry>> entry = MeasurePending(pending, &pacer);
  const double spent_ms = static_cast<double>(SteadyNow() - pacer.waited_ns() - begin) * 1e-6;
  pacer.EndHold();
  measuring.unlock();
  if (entry.ok()) return spent_ms;
  if (entry.status().code() == StatusCode::kCancelled) {
    again();
  } else {
    Release(problem, kNoMemoryNs);
    Note("(" + ToString(problem) + "): not measured: " + std::string(entry.status().message()));
    log_.Warning(std::string(entry.status().message()) + "; what served goes on serving");
  }
  return spent_ms;
}

void SessionState::Collect(bool on) {
  collecting_.store(on);
  forms_.Unsettle();
  background_.Pause(on);
}

Result<SessionState::Tuned> SessionState::TunePending(size_t most) {
  Tuned tuned;
  while (tuned.count < most) {
    std::unique_lock measuring(Measuring(), std::try_to_lock);
    while (!measuring.owns_lock()) {
      // Said again and again: the background gives up for whoever waits.
      MeasuringWanted().store(SteadyNow());
      std::this_thread::sleep_for(kWhileOthersMeasure);
      static_cast<void>(measuring.try_lock());
    }
    const std::optional<PendingTuning> pending = background_.Take();
    if (!pending) break;
    Result<std::shared_ptr<const Entry>> entry = MeasurePending(*pending, nullptr);
    if (entry.ok()) {
      ++tuned.count;
      const Record& record = entry.value()->record;
      char text[96];
      std::snprintf(text, sizeof(text), " %.4g ms, default %.4g ms; ", record.winner_ms,
                    record.default_ms);
      tuned.last = "(" + ToString(record.problem) + "): " + record.winner.FullName() + text +
                   entry.value()->why;
    } else {
      Release(pending->problem, kNoMemoryNs);
      tuned.last = std::string(entry.status().message());
      Note("(" + ToString(pending->problem) + "): not measured: " + tuned.last);
      log_.Warning(tuned.last + "; what served goes on serving");
    }
  }
  tuned.pending = background_.size();
  return tuned;
}

size_t SessionState::QueueRecorded() {
  std::vector<Problem> problems;
  std::vector<Problem> too_wide;
  {
    // A file may name any number of threads, and measuring would start them.
    const size_t threads =
        std::max(ProcessorsOfProcess().size(), static_cast<size_t>(options_.threads));
    const std::lock_guard lock(known_mutex_);
    for (const auto& [problem, uses] : seen_) {
      const auto found = known_.find(problem);
      if (found != known_.end() && !WantsMoreTime(found->second.record)) continue;
      (problem.threads <= threads ? problems : too_wide).push_back(problem);
    }
  }
  for (const Problem& problem : too_wide) {
    Note("(" + ToString(problem) + "): not measured: there are not so many processors here");
  }
  for (const Problem& problem : problems) {
    Result<OwnedOperands> made = OwnedOperands::MakeUp(problem, background_.room());
    if (!made.ok()) continue;  // the next call has room again
    uint64_t uses = 0;
    {
      const std::lock_guard lock(known_mutex_);
      uses = seen_[problem];
    }
    const double worth_ms = static_cast<double>(uses) * Flops(problem) / kFlopsPerMs;
    if (target_.is_gpu()) {
      made = CopyToDevice(problem, made.value().view(), target_.device(), background_.room());
      if (!made.ok()) continue;
    }
    background_.Offer({problem, std::move(made).value(), nullptr, worth_ms});
  }
  return background_.size();
}

void SessionState::StopBackground() noexcept { background_.Stop(); }

void SessionState::LookAround() {
  if (SteadyMs() - last_look_ms_.load() < kLookIntervalMs) return;
  last_look_ms_.store(SteadyMs());
  if (Measures()) MarkStale();
  if (dirty() && !options_.cache_path.empty() && Runs().in_flight() == 0 &&
      SteadyMs() - last_save_ms_.load() >= kSaveIntervalMs) {
    SaveOwnCache(log_, /*patience_ms=*/0);
  }
}

void SessionState::MarkStale() {
  watch_->Poll(Runs().in_flight() == 0);
  const MachineState state = watch_->state();
  StalenessRules rules;
  rules.time_to_live_ms = options_.revalidate_ms;
  const int64_t now = SteadyNow();
  for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
    if (!entry->tuned || entry->notes.queued.load() || entry->notes.attention.load()) continue;
    MeasuredState measured;
    measured.age_ms = (now - entry->since_ns) / 1'000'000;
    if (entry->record.temperature_c != 0.0) {
      measured.machine.temperature_c = entry->record.temperature_c;
    }
    if (entry->record.clock_mhz > 0.0) measured.machine.clock_mhz = entry->record.clock_mhz;
    measured.confirmations = entry->record.confirmations;
    const std::optional<std::string> why =
        WhyStale(rules, measured, state,
                 watch_->low_clock_readings(measured.machine.clock_mhz, rules.clock_drop));
    if (!why) continue;
    entry->notes.attention.store(true);
    log_.Info("stale (" + ToString(entry->record.problem) + "): " + *why);
  }
}

}  // namespace tunableop
