// SessionState: measuring one problem, now.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "provider/idle_pacer.h"
#include "provider/per_process.h"
#include "provider/processors.h"
#include "provider/run_gate.h"
#include "provider/session_state.h"
#include "provider/steady_ms.h"
#include "provider/unix_seconds.h"
#include "tuner/clock.h"
#include "tuner/deny_list.h"
#include "tuner/scratch.h"

namespace tunableop {
namespace {

// Records of this session's measurements that are kept, for each entry of the cache.
constexpr size_t kKnownPerEntry = 16;
constexpr int64_t kPutOffNs = 1'000'000'000;
// Copies of C that a measurement makes, about.
constexpr size_t kScratches = 2;
constexpr int64_t kNoMemoryNs = 10'000'000'000;

std::string TunedLine(const Problem& problem, const TuneResult& result) {
  std::string line = "tuned (" + ToString(problem) + "): " + result.winner.FullName();
  char text[160];
  if (result.winner_ms > 0.0) {
    std::snprintf(text, sizeof(text), " %.3g ms, default %.3g ms, %d candidates, %.3g ms",
                  result.winner_ms, result.default_ms, result.tried, result.spent_ms);
  } else {
    std::snprintf(text, sizeof(text), " not measured, %.3g ms", result.spent_ms);
  }
  return line + text + "; " + result.why;
}

// "wrong answer: row 3 ..." -> "wrong answer"; "did not return within 2 s: ..." -> "did not
// return".
std::string KindOf(const std::string& reason) {
  constexpr std::string_view kHung = "did not return";
  if (reason.starts_with(kHung)) return std::string(kHung);
  return reason.substr(0, reason.find(':'));
}

}  // namespace

std::mutex& SessionState::Measuring() noexcept {
  // Never destroyed: sessions may outlive static destruction at process exit.
  static auto& mutex = *new PerProcess<std::mutex>;
  return *mutex;
}

std::atomic<int64_t>& SessionState::MeasuringWanted() noexcept {
  static std::atomic<int64_t> wanted{0};
  return wanted;
}

bool SessionState::IsCold(const Problem& problem) const noexcept {
  // The weights of the other layers push this one's out of the cache before it is used again.
  return problem.b_constant != 0 &&
         weight_bytes_.load(std::memory_order_relaxed) > target_.CacheBytes(problem.threads);
}

TrialJournal* SessionState::Journal() {
  if (!journal_tried_ && !options_.cache_path.empty()) {
    journal_tried_ = true;
    Result<std::unique_ptr<CrashJournal>> journal = CrashJournal::Create(options_.cache_path);
    if (journal.ok()) {
      journal_ = std::move(journal).value();
    } else {
      Note("a kernel that kills this process would not be remembered: " +
           std::string(journal.status().message()));
    }
  }
  return journal_.get();
}

std::shared_ptr<const Entry> SessionState::MakeEntry(const Problem& problem,
                                                     const TuneResult& result,
                                                     const StockFigure& stock, const How& how) {
  auto entry = std::make_shared<Entry>();
  const std::shared_ptr<const Backend> backend = target_.Find(result.winner.library);
  Record& record = entry->record;
  record.problem = problem;
  record.winner = result.winner;
  if (backend != nullptr) record.library_identity = backend->identity();
  record.winner_ms = result.winner_ms;
  record.default_ms = result.default_ms;
  record.default_kernel = result.default_candidate.FullName();
  record.error = result.error;
  record.tried = result.tried;
  record.budget_ms = result.budget_ms;
  record.cold_b = result.cold;
  record.measured_at = UnixSeconds();
  record.stock_ms = stock.ms;
  record.stock_wins = stock.wins;
  // The clock is measured where it matters, on the core that measures: a system's figure may be a
  // constant, or a mean over idle cores.
  watch_->FeedClock(result.clock_mhz);
  record.temperature_c = watch_->state().temperature_c.value_or(0.0);
  // A card's clock is its driver's word, read right after it was busy.
  record.clock_mhz = target_.is_gpu() ? watch_->state().clock_mhz.value_or(0.0) : result.clock_mhz;
  if (how.serving != nullptr && how.serving->record.winner == result.winner) {
    record.confirmations = how.serving->record.confirmations + 1;
  }
  if (options_.buckets == Buckets::kPowersOfTwo) {
    const MRange range = BucketOf(problem.m);
    record.m_low = range.low;
    record.m_high = range.high;
  }
  entry->plan = result.plan;
  entry->plan_without_copy = PlanWithoutCopy(problem, result.plan);
  entry->tuned = true;
  entry->why = result.why;
  entry->hash = Hash(problem);
  entry->since_ns = SteadyNow();
  return entry;
}

bool SessionState::SaysLess(const TuneResult& result, const Record& known) noexcept {
  if (result.winner != known.winner) return false;
  return (result.winner_ms <= 0.0 && known.winner_ms > 0.0) ||
         (result.budget_ms > 0.0 && known.budget_ms == 0.0);
}

std::shared_ptr<const Entry> SessionState::Renew(const Entry& serving, const TuneResult& result) {
  auto entry = std::make_shared<Entry>();
  entry->record = serving.record;
  // It was looked at in this state of the machine: another look in the same would find no more.
  watch_->FeedClock(result.clock_mhz);
  const MachineState state = watch_->state();
  entry->record.temperature_c = state.temperature_c.value_or(entry->record.temperature_c);
  if (result.clock_mhz > 0.0) entry->record.clock_mhz = result.clock_mhz;
  entry->plan = result.plan;
  entry->plan_without_copy = PlanWithoutCopy(entry->record.problem, result.plan);
  entry->tuned = true;
  entry->why = serving.why;
  entry->hash = serving.hash;
  entry->since_ns = SteadyNow();
  const std::lock_guard lock(known_mutex_);
  if (const auto known = known_.find(entry->record.problem); known != known_.end()) {
    known->second.stale.clear();
    known->second.record.temperature_c = entry->record.temperature_c;
    known->second.record.clock_mhz = entry->record.clock_mhz;
  }
  if (UsesChoices()) cache_.Put(entry);
  return entry;
}

void SessionState::PutTuned(std::shared_ptr<const Entry> entry) {
  const Problem& problem = entry->record.problem;
  const std::lock_guard lock(known_mutex_);
  Known& known = known_[problem];
  known.record = entry->record;
  known.record.m_low = 0;
  known.record.m_high = 0;
  known.why = entry->why;
  known.stale.clear();
  if (entry->record.m_low > 0) {
    ranges_.insert_or_assign(RangeKey(problem), Known{entry->record, entry->why, true, {}});
  }
  if (entry->record.budget_ms == 0.0 && entry->record.winner_ms > 0.0) {
    neighbours_.Put(entry->record);
  }
  if (!known.learned) {
    known.learned = true;
    learned_.push_back(problem);
  }
  while (learned_.size() > kKnownPerEntry * cache_.capacity()) {
    const auto oldest = known_.find(learned_.front());
    // Gone, or handed over from outside since: that is for the user to bound.
    if (oldest != known_.end() && oldest->second.learned) {
      const auto range = ranges_.find(RangeKey(oldest->first));
      if (range != ranges_.end() && range->second.learned &&
          range->second.record.problem == oldest->first) {
        ranges_.erase(range);
      }
      known_.erase(oldest);
    }
    learned_.pop_front();
  }
  // SetMode changes the mode and then, under the lock, clears the cache.
  if (!UsesChoices()) return;
  {
    const SessionCache::ReadGuard guard;
    const Entry* serving = cache_.Find(problem);
    if (serving == nullptr || serving->record.winner != entry->record.winner) {
      choice_changes_.fetch_add(1);
    }
  }
  cache_.Put(std::move(entry));
}

void SessionState::GiveBackScratch(const Problem& problem) noexcept {
  if (target_.is_gpu()) return;
  const Result<size_t> bytes = Scratch::BytesFor(problem, SIZE_MAX);
  if (!bytes.ok()) return;
  heap_trim_.WillBeFreed(kScratches * bytes.value());
  heap_trim_.Trim();
}

Result<std::shared_ptr<const Entry>> SessionState::Measure(const Problem& problem,
                                                           const Operands& operands,
                                                           Executor& executor, const How& how) {
  TunerOptions tuner = options_.tuner;
  tuner.journal = Journal();
  tuner.pacer = how.pacer;
  tuner.cold_b = IsCold(problem);
  tuner.count_hardware = options_.measure_mode == MeasureMode::kCounters;
  const bool with_stock = how.with_stock && !target_.is_gpu();
  if (with_stock && problem.threads <= 1) tuner.spectator = stock_;
  if (how.serving != nullptr) tuner.incumbent = how.serving->record.winner;
  watch_->Poll(Runs().in_flight() == 0);
  // What was waited for a turn costs nothing.
  const auto working_ns = [&] {
    return SteadyNow() - (how.pacer != nullptr ? how.pacer->waited_ns() : 0);
  };
  const auto spent_ms = [&, begin = working_ns()] {
    return static_cast<double>(working_ns() - begin) * 1e-6;
  };
  Result<TuneResult> tuned = target_.is_gpu()
                                 ? TuneOnCard(problem, operands, executor, tuner)
                                 : Tune(problem, operands, executor, target_.backends(), tuner);
  if (target_.is_gpu()) watch_->Poll(/*idle=*/false);
  GiveBackScratch(problem);
  if (!tuned.ok()) {
    budget_.Spend(spent_ms());
    dirty_.store(true, std::memory_order_relaxed);  // the account
    return tuned.TakeStatus();
  }
  const TuneResult& result = tuned.value();
  for (const Rejection& rejection : result.rejected) {
    denied_.fetch_add(1, std::memory_order_relaxed);
    {
      const std::lock_guard lock(report_mutex_);
      ++rejected_[KindOf(rejection.reason)];
    }
    Note("(" + ToString(problem) + "): " + rejection.candidate.FullName() +
         " rejected: " + rejection.reason);
  }
  if (!result.spectator_note.empty()) {
    Note("(" + ToString(problem) + "): the stock provider's kernel: " + result.spectator_note);
  }
  StockFigure stock;
  if (result.spectator_ms > 0.0) {
    stock.ms = std::max(result.spectator_ms - stock_->OverheadMs(), 1e-6);
    stock.wins = result.spectator_wins;
  } else if (with_stock && problem.threads > 1 && result.winner_ms > 0.0) {
    stock = StockAlone(problem, operands, executor, result, how.pacer);
  }
  const double spent = spent_ms();
  budget_.Spend(spent);
  if (trace_ != nullptr) trace_->Write(problem, result);
  if (tuner.count_hardware) {
    const std::lock_guard lock(known_mutex_);
    if (counters_.size() > kKnownPerEntry * cache_.capacity()) counters_.clear();
    counters_[Hash(problem)] = result.counters;
  }
  std::shared_ptr<const Entry> entry;
  if (how.serving != nullptr && SaysLess(result, how.serving->record)) {
    entry = Renew(*how.serving, result);
  } else {
    entry = MakeEntry(problem, result, stock, how);
    PutTuned(entry);
  }
  (how.serving != nullptr ? revalidated_ : tuned_).fetch_add(1, std::memory_order_relaxed);
  tuning_microseconds_.fetch_add(static_cast<int64_t>(spent * 1000.0), std::memory_order_relaxed);
  dirty_.store(true, std::memory_order_relaxed);
  log_.Info(TunedLine(problem, result));
  return entry;
}

Status SessionState::RunPutOff(const Problem& problem, const Operands& operands, Executor& executor,
                               GemmNode& node, Fallback reason, int64_t for_ns) {
  node.counters.FellBack(reason);
  TUNABLEOP_RETURN_IF_ERROR(RunDefault(problem, operands, executor, node));
  const SessionCache::ReadGuard guard;
  if (const Entry* entry = cache_.Find(problem); entry != nullptr && !entry->tuned) {
    entry->notes.reason.store(static_cast<uint8_t>(reason), std::memory_order_relaxed);
    entry->notes.next_try_ns.store(SteadyNow() + for_ns, std::memory_order_relaxed);
  }
  return Status::Ok();
}

Status SessionState::TuneAndRun(const Problem& problem, const Operands& operands,
                                Executor& executor, GemmNode& node) {
  const bool on_demand = collecting_.load(std::memory_order_relaxed);
  if (const std::optional<Fallback> exhausted = budget_.Exhausted(); exhausted && !on_demand) {
    return RunPutOff(problem, operands, executor, node, *exhausted, kPutOffNs);
  }
  if (no_memory_until_ns_.load(std::memory_order_relaxed) > SteadyNow()) {
    return RunPutOff(problem, operands, executor, node, Fallback::kOutOfMemory, kPutOffNs);
  }
  std::unique_lock measuring(Measuring(), std::try_to_lock);
  if (!measuring.owns_lock()) {
    // Somebody measures already. Waiting would stall this request, and a second measurement spoil
    // both.
    MeasuringWanted().store(SteadyNow(), std::memory_order_relaxed);
    node.counters.FellBack(Fallback::kTunerBusy);
    return RunDefault(problem, operands, executor, node);
  }
  {
    const SessionCache::ReadGuard guard;
    const Entry* entry = cache_.Find(problem);
    // Another thread finished this very problem between our look-up and the lock.
    if (entry != nullptr && entry->tuned) {
      node.counters.misses.fetch_sub(1, std::memory_order_relaxed);
      node.counters.Hit(entry->hash);
      measuring.unlock();
      return RunReported(*entry, operands, executor, node, /*hit=*/true);
    }
  }
  Result<std::shared_ptr<const Entry>> entry = Measure(problem, operands, executor, {});
  measuring.unlock();
  if (!entry.ok()) {
    // Nothing to race: what there is may run all the same.
    if (entry.status().code() == StatusCode::kNotSupported) {
      return RunDefault(problem, operands, executor, node);
    }
    if (entry.status().code() != StatusCode::kOutOfMemory) return entry.TakeStatus();
    // The call itself needs no more memory than it has: it runs, unmeasured.
    no_memory_until_ns_.store(SteadyNow() + kNoMemoryNs, std::memory_order_relaxed);
    log_.Warning(std::string(entry.status().message()) + "; the default kernel runs");
    return RunPutOff(problem, operands, executor, node, Fallback::kOutOfMemory, kPutOffNs);
  }
  if (options_.revalidate_ms > 0) static_cast<void>(background_.Start());
  if (!options_.cache_path.empty() && SteadyMs() - last_save_ms_.load() >= kSaveIntervalMs)
    SaveOwnCache(log_, /*patience_ms=*/0);
  return RunReported(*entry.value(), operands, executor, node, /*hit=*/false);
}

}  // namespace tunableop
