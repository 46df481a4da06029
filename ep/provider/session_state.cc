#include "provider/session_state.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <optional>
#include <utility>

#include "backends/registry.h"
#include "provider/steady_ms.h"
#include "provider/thread_probe.h"
#include "tuner/deny_list.h"
#include "tuner/tuner.h"

namespace tunableop {
namespace {

// One measurement at a time in the whole process: two at once would time each other.
std::mutex g_measuring;

// After a measurement the file is written at most this often; the rest is written when the session
// ends.
constexpr int64_t kSaveIntervalMs = 2000;
constexpr size_t kMaxNotes = 256;
// Records of this session's measurements that are kept, for each entry of the cache.
constexpr size_t kKnownPerEntry = 16;

int64_t UnixSeconds() noexcept {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

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

std::shared_ptr<const Entry> MakeEntry(const Problem& problem, const TuneResult& result) {
  auto entry = std::make_shared<Entry>();
  const std::shared_ptr<const Backend> backend = FindCpuBackend(result.winner.library);
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
  record.measured_at = UnixSeconds();
  entry->plan = result.plan;
  entry->tuned = true;
  entry->why = result.why;
  return entry;
}

}  // namespace

SessionState::SessionState(Options options, Log log)
    : options_(std::move(options)), log_(log), cache_(options_.cache_size) {}

Status SessionState::Run(const Problem& problem, const Operands& operands, Executor& executor,
                         NodeCounters& counters) {
  if (DenialCount() != denials_seen_.load(std::memory_order_relaxed)) ForgetDenied();
  {
    const SessionCache::ReadGuard guard;
    const Entry* entry = cache_.Find(problem);
    if (entry != nullptr && (entry->tuned || options_.tuning != TuningMode::kOnline)) {
      auto& counter = entry->tuned ? counters.hits : counters.defaults;
      counter.fetch_add(1, std::memory_order_relaxed);
      if (!entry->tuned && options_.tuning == TuningMode::kCached) {
        counters.misses.fetch_add(1, std::memory_order_relaxed);
      }
      if (log_.debug_enabled()) {
        log_.Debug((entry->tuned ? "hit (" : "default (") + ToString(problem) +
                   "): " + entry->record.winner.FullName());
      }
      return profiler_->Run(*entry->plan, problem, operands, executor, entry->record.winner,
                            /*hit=*/entry->tuned);
    }
  }
  return RunUncached(problem, operands, executor, counters);
}

void SessionState::ForgetDenied() {
  const uint64_t count = DenialCount();
  const std::lock_guard lock(known_mutex_);
  std::erase_if(known_,
                [](const auto& item) { return DenialOf(item.second.record.winner).has_value(); });
  for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
    if (DenialOf(entry->record.winner)) cache_.Erase(entry->record.problem);
  }
  denials_seen_.store(count, std::memory_order_relaxed);
}

Status SessionState::RunUncached(const Problem& problem, const Operands& operands,
                                 Executor& executor, NodeCounters& counters) {
  if (options_.tuning != TuningMode::kOff) {
    if (const std::shared_ptr<const Entry> entry = Adopt(problem)) {
      counters.hits.fetch_add(1, std::memory_order_relaxed);
      return entry->plan->Run(operands, executor);
    }
    counters.misses.fetch_add(1, std::memory_order_relaxed);
    if (log_.debug_enabled()) log_.Debug("miss (" + ToString(problem) + ")");
  }
  if (options_.tuning == TuningMode::kOnline) {
    return TuneAndRun(problem, operands, executor, counters);
  }
  counters.defaults.fetch_add(1, std::memory_order_relaxed);
  return RunDefault(problem, operands, executor);
}

std::shared_ptr<const Entry> SessionState::Adopt(const Problem& problem) {
  std::string refusal;
  {
    const std::lock_guard lock(known_mutex_);
    const auto found = known_.find(problem);
    if (found == known_.end()) return nullptr;
    const Known& known = found->second;
    // Kept for want of time, of which there is more here.
    if (options_.tuning == TuningMode::kOnline && known.record.budget_ms > 0.0 &&
        options_.tuner.max_tuning_ms > known.record.budget_ms) {
      return nullptr;
    }
    const std::shared_ptr<const Backend> backend = FindCpuBackend(known.record.winner.library);
    if (backend == nullptr) return nullptr;  // Take refuses such records; libraries do not vanish
    Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, known.record.winner);
    if (plan.ok()) {
      auto entry = std::make_shared<Entry>();
      entry->record = known.record;
      entry->plan = std::move(plan).value();
      entry->tuned = true;
      entry->why = known.why;
      cache_.Put(entry);
      return entry;
    }
    refusal = "(" + ToString(problem) + "): " + known.record.winner.FullName() +
              " cannot be used: " + std::string(plan.status().message());
    known_.erase(found);
  }
  Note(std::move(refusal));
  return nullptr;
}

void SessionState::PutTuned(std::shared_ptr<const Entry> entry) {
  const std::lock_guard lock(known_mutex_);
  Known& known = known_[entry->record.problem];
  known.record = entry->record;
  known.why = entry->why;
  if (!known.learned) {
    known.learned = true;
    learned_.push_back(entry->record.problem);
  }
  while (learned_.size() > kKnownPerEntry * cache_.capacity()) {
    const auto oldest = known_.find(learned_.front());
    // Gone, or handed over from outside since: that is for the user to bound.
    if (oldest != known_.end() && oldest->second.learned) known_.erase(oldest);
    learned_.pop_front();
  }
  cache_.Put(std::move(entry));
}

void SessionState::PutDefault(std::shared_ptr<const Entry> entry) {
  const Problem& problem = entry->record.problem;
  const std::lock_guard lock(known_mutex_);
  // Loaded meanwhile: an entry in the cache would hide it where nothing is measured.
  if (options_.tuning == TuningMode::kCached && known_.contains(problem)) return;
  {
    const SessionCache::ReadGuard guard;
    const Entry* there = cache_.Find(problem);
    if (there != nullptr && there->tuned) return;  // measured meanwhile
  }
  cache_.Put(std::move(entry));
}

Status SessionState::TuneAndRun(const Problem& problem, const Operands& operands,
                                Executor& executor, NodeCounters& counters) {
  std::unique_lock measuring(g_measuring, std::try_to_lock);
  if (!measuring.owns_lock()) {
    // Somebody measures already. Waiting would stall this request, and a second measurement spoil
    // both.
    busy_.fetch_add(1, std::memory_order_relaxed);
    return RunDefault(problem, operands, executor);
  }
  {
    const SessionCache::ReadGuard guard;
    const Entry* entry = cache_.Find(problem);
    // Another thread finished this very problem between our look-up and the lock.
    if (entry != nullptr && entry->tuned) {
      counters.misses.fetch_sub(1, std::memory_order_relaxed);
      counters.hits.fetch_add(1, std::memory_order_relaxed);
      measuring.unlock();
      return entry->plan->Run(operands, executor);
    }
  }
  Result<TuneResult> tuned = Tune(problem, operands, executor, CpuBackends(), options_.tuner);
  if (!tuned.ok()) {
    if (tuned.status().code() != StatusCode::kOutOfMemory) return tuned.TakeStatus();
    measuring.unlock();
    // The call itself needs no more memory than it has: it runs, unmeasured.
    out_of_memory_.fetch_add(1, std::memory_order_relaxed);
    log_.Warning(std::string(tuned.status().message()) + "; the default kernel runs");
    return RunDefault(problem, operands, executor);
  }
  const TuneResult& result = tuned.value();
  for (const Rejection& rejection : result.rejected) {
    denied_.fetch_add(1, std::memory_order_relaxed);
    Note("(" + ToString(problem) + "): " + rejection.candidate.FullName() +
         " rejected: " + rejection.reason);
  }
  const std::shared_ptr<const Entry> entry = MakeEntry(problem, result);
  PutTuned(entry);
  tuned_.fetch_add(1, std::memory_order_relaxed);
  tuning_microseconds_.fetch_add(static_cast<int64_t>(result.spent_ms * 1000.0),
                                 std::memory_order_relaxed);
  dirty_.store(true, std::memory_order_relaxed);
  measuring.unlock();
  log_.Info(TunedLine(problem, result));
  if (!options_.cache_path.empty() && SteadyMs() - last_save_ms_.load() >= kSaveIntervalMs)
    SaveOwnCache(log_, /*patience_ms=*/0);
  return entry->plan->Run(operands, executor);
}

Result<std::shared_ptr<const Entry>> SessionState::DefaultEntry(const Problem& problem) {
  std::string reasons;
  for (const std::shared_ptr<const Backend>& backend : CpuBackends()) {
    if (backend->may_hang()) continue;  // never unmeasured
    for (const Candidate& candidate : backend->Candidates(problem, CandidateScope::kDefault)) {
      if (const std::optional<std::string> denied = DenialOf(candidate)) {
        reasons += "; " + candidate.FullName() + " denied: " + *denied;
        continue;
      }
      Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, candidate);
      if (!plan.ok()) {
        reasons += "; " + candidate.FullName() + ": " + std::string(plan.status().message());
        continue;
      }
      auto entry = std::make_shared<Entry>();
      entry->record.problem = problem;
      entry->record.winner = candidate;
      entry->record.default_kernel = candidate.FullName();
      entry->plan = std::move(plan).value();
      entry->why = options_.tuning == TuningMode::kOff      ? "tuning=off"
                   : options_.tuning == TuningMode::kCached ? "not in the cache"
                                                            : "not measured yet";
      return std::shared_ptr<const Entry>(std::move(entry));
    }
  }
  return Status(StatusCode::kNotSupported,
                "no kernel can run (" + ToString(problem) + ")" + reasons);
}

Status SessionState::RunDefault(const Problem& problem, const Operands& operands,
                                Executor& executor) {
  {
    const SessionCache::ReadGuard guard;
    // With tuning=online an untuned entry is a miss, which its next use may measure; until then its
    // plan serves.
    if (const Entry* entry = cache_.Find(problem)) return entry->plan->Run(operands, executor);
  }
  Result<std::shared_ptr<const Entry>> entry = DefaultEntry(problem);
  if (!entry.ok()) return entry.TakeStatus();
  PutDefault(entry.value());
  return entry.value()->plan->Run(operands, executor);
}

int SessionState::Threads(const OrtKernelContext* context) {
  const int known = threads_.load(std::memory_order_acquire);
  if (known > 0) return known;
  const std::lock_guard lock(threads_mutex_);
  if (threads_.load(std::memory_order_relaxed) == 0) {
    threads_.store(options_.threads > 0 ? options_.threads : ProbePoolThreads(context),
                   std::memory_order_release);
  }
  return threads_.load(std::memory_order_relaxed);
}

SessionStats SessionState::Stats() const {
  SessionStats stats;
  uint64_t defaults = 0;
  {
    const std::lock_guard lock(report_mutex_);
    for (const std::shared_ptr<NodeCounters>& node : nodes_) {
      stats.hits += node->hits.load(std::memory_order_relaxed);
      stats.misses += node->misses.load(std::memory_order_relaxed);
      defaults += node->defaults.load(std::memory_order_relaxed);
    }
  }
  stats.tuned = tuned_.load(std::memory_order_relaxed);
  stats.tuning_seconds =
      static_cast<double>(tuning_microseconds_.load(std::memory_order_relaxed)) * 1e-6;
  stats.evicted = cache_.evicted();
  stats.denied = denied_.load(std::memory_order_relaxed);
  stats.entries = Records().size();
  if (defaults > 0) {
    stats.fallbacks[options_.tuning == TuningMode::kOff ? "tuning_off" : "not_in_cache"] = defaults;
  }
  if (const uint64_t busy = busy_.load(std::memory_order_relaxed); busy > 0) {
    stats.fallbacks["tuner_busy"] = busy;
  }
  if (const uint64_t count = out_of_memory_.load(std::memory_order_relaxed); count > 0) {
    stats.fallbacks["out_of_memory"] = count;
  }
  return stats;
}

std::vector<NodeDecision> SessionState::Decisions() const {
  const std::lock_guard lock(report_mutex_);
  return decisions_;
}

void SessionState::AddDecisions(std::vector<NodeDecision> decisions, bool ends_round) {
  const std::lock_guard lock(report_mutex_);
  std::move(decisions.begin(), decisions.end(), std::back_inserter(this_round_));
  if (!ends_round) return;
  decisions_ = std::move(this_round_);
  this_round_.clear();
}

std::shared_ptr<NodeCounters> SessionState::AddNode() {
  auto node = std::make_shared<NodeCounters>();
  const std::lock_guard lock(report_mutex_);
  nodes_.push_back(node);
  return node;
}

std::vector<std::string> SessionState::Notes() const {
  const std::lock_guard lock(report_mutex_);
  return notes_;
}

void SessionState::Note(std::string line) {
  const std::lock_guard lock(report_mutex_);
  if (notes_.size() >= kMaxNotes) return;
  if (std::find(notes_.begin(), notes_.end(), line) != notes_.end()) return;
  notes_.push_back(std::move(line));
}

}  // namespace tunableop
