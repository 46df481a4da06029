#include "provider/session_state.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "backends/registry.h"
#include "cache/file_store.h"
#include "provider/thread_probe.h"
#include "tuner/tuner.h"

namespace tunableop {
namespace {

// One measurement at a time in the whole process: two at once would time each other.
std::mutex g_measuring;

// After a measurement the file is written at most this often; the rest is written when the session
// ends.
constexpr int64_t kSaveIntervalMs = 2000;
constexpr size_t kMaxNotes = 256;

int64_t SteadyMs() noexcept {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

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
  entry->record = Record{
      problem,          result.winner,     backend != nullptr ? backend->identity() : std::string(),
      result.winner_ms, result.default_ms, result.default_candidate.FullName(),
      result.error,     result.tried,      result.budget_ms,
      UnixSeconds()};
  entry->plan = result.plan;
  entry->tuned = true;
  return entry;
}

}  // namespace

SessionState::SessionState(Options options, Log log)
    : options_(std::move(options)), log_(log), cache_(options_.cache_size) {}

Status SessionState::Run(const Problem& problem, const Operands& operands, Executor& executor,
                         NodeCounters& counters) {
  {
    const SessionCache::ReadGuard guard;
    const Entry* entry = cache_.Find(problem);
    if (entry != nullptr && (entry->tuned || options_.tuning != TuningMode::kOnline)) {
      auto& counter = entry->tuned ? counters.hits : counters.defaults;
      counter.fetch_add(1, std::memory_order_relaxed);
      if (log_.debug_enabled()) {
        log_.Debug((entry->tuned ? "hit (" : "default (") + ToString(problem) +
                   "): " + entry->record.winner.FullName());
      }
      return entry->plan->Run(operands, executor);
    }
  }
  return RunUncached(problem, operands, executor, counters);
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
  if (options_.tuning == TuningMode::kOnline) return TuneAndRun(problem, operands, executor);
  counters.defaults.fetch_add(1, std::memory_order_relaxed);
  return RunDefault(problem, operands, executor);
}

std::shared_ptr<const Entry> SessionState::Adopt(const Problem& problem) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(known_mutex_);
    const auto found = known_.find(problem);
    if (found == known_.end()) return nullptr;
    entry = std::make_shared<Entry>();
    entry->record = found->second;
  }
  const std::shared_ptr<const Backend> backend = FindCpuBackend(entry->record.winner.library);
  if (backend == nullptr)
    return nullptr;  // Take refuses such records; the library cannot vanish later
  Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, entry->record.winner);
  if (!plan.ok()) {
    Note("(" + ToString(problem) + "): " + entry->record.winner.FullName() +
         " cannot be used: " + std::string(plan.status().message()));
    const std::lock_guard lock(known_mutex_);
    known_.erase(problem);
    return nullptr;
  }
  entry->plan = std::move(plan).value();
  entry->tuned = true;
  cache_.Put(entry);
  return entry;
}

Status SessionState::TuneAndRun(const Problem& problem, const Operands& operands,
                                Executor& executor) {
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
    if (entry != nullptr && entry->tuned) return entry->plan->Run(operands, executor);
  }
  Result<TuneResult> tuned = Tune(problem, operands, executor, CpuBackends(), options_.tuner);
  if (!tuned.ok()) return tuned.TakeStatus();
  const TuneResult& result = tuned.value();
  for (const Rejection& rejection : result.rejected) {
    denied_.fetch_add(1, std::memory_order_relaxed);
    Note("(" + ToString(problem) + "): " + rejection.candidate.FullName() +
         " rejected: " + rejection.reason);
  }
  const std::shared_ptr<const Entry> entry = MakeEntry(problem, result);
  cache_.Put(entry);
  tuned_.fetch_add(1, std::memory_order_relaxed);
  tuning_microseconds_.fetch_add(static_cast<int64_t>(result.spent_ms * 1000.0),
                                 std::memory_order_relaxed);
  dirty_.store(true, std::memory_order_relaxed);
  measuring.unlock();
  log_.Info(TunedLine(problem, result));
  if (!options_.cache_path.empty() && SteadyMs() - last_save_ms_.load() >= kSaveIntervalMs)
    SaveOwnCache();
  return entry->plan->Run(operands, executor);
}

Result<std::shared_ptr<const Entry>> SessionState::DefaultEntry(const Problem& problem) {
  std::string reasons;
  for (const std::shared_ptr<const Backend>& backend : CpuBackends()) {
    for (const Candidate& candidate : backend->Candidates(problem, CandidateScope::kDefault)) {
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
      return std::shared_ptr<const Entry>(std::move(entry));
    }
  }
  return Status(StatusCode::kNotSupported,
                "no kernel can run (" + ToString(problem) + ")" + reasons);
}

Status SessionState::RunDefault(const Problem& problem, const Operands& operands,
                                Executor& executor) {
  Result<std::shared_ptr<const Entry>> entry = DefaultEntry(problem);
  if (!entry.ok()) return entry.TakeStatus();
  // In online mode the problem stays a miss, so that it is measured at its next use.
  if (options_.tuning != TuningMode::kOnline) cache_.Put(entry.value());
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

size_t SessionState::Take(std::vector<Record> records, std::vector<std::string> refused,
                          std::string_view origin, std::vector<std::string>& problems) {
  size_t taken = 0;
  for (Record& record : records) {
    const std::string what = std::string(origin) + ": entry (" + ToString(record.problem) + ", " +
                             record.winner.FullName() + "): ";
    const std::shared_ptr<const Backend> backend = FindCpuBackend(record.winner.library);
    if (backend == nullptr) {
      refused.push_back(
          what + "field 'winner.library': expected a library that this process has, found '" +
          record.winner.library + "'; entry ignored");
      continue;
    }
    if (backend->identity() != record.library_identity) {
      refused.push_back(what + "field 'library_identity': expected '" + backend->identity() +
                        "', found '" + record.library_identity + "'; entry ignored");
      continue;
    }
    if (Result<std::unique_ptr<Plan>> plan = backend->Prepare(record.problem, record.winner);
        !plan.ok()) {
      refused.push_back(what + "field 'winner.kernel': expected a kernel of " +
                        record.winner.library + " that can run this problem, found '" +
                        record.winner.kernel + "' (" + std::string(plan.status().message()) +
                        "); entry ignored");
      continue;
    }
    ++taken;
    cache_.Erase(record.problem);  // what is handed over replaces what was learned
    const std::lock_guard lock(known_mutex_);
    const Problem problem = record.problem;
    known_.insert_or_assign(problem, std::move(record));
  }
  for (std::string& line : refused) {
    log_.Warning(line);
    Note(line);
    problems.push_back(std::move(line));
  }
  return taken;
}

size_t SessionState::SetResults(std::string_view json, std::string_view origin,
                                std::vector<std::string>& problems) {
  LoadReport report = ParseResults(json, origin, CpuFingerprint());
  return Take(std::move(report.records), std::move(report.problems), origin, problems);
}

Status SessionState::LoadCache(const std::string& path, std::vector<std::string>& problems) {
  Result<LoadReport> loaded = LoadFile(path, CpuFingerprint());
  if (!loaded.ok()) return loaded.TakeStatus();
  LoadReport report = std::move(loaded).value();
  const size_t taken = Take(std::move(report.records), std::move(report.problems), path, problems);
  log_.Info("cache '" + path + "': " + std::to_string(taken) + " entries loaded, " +
            std::to_string(problems.size()) + " problems");
  return Status::Ok();
}

std::vector<Record> SessionState::Records() const {
  std::unordered_map<Problem, Record, ProblemHash> all;
  {
    const std::lock_guard lock(known_mutex_);
    all = known_;
  }
  for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
    if (entry->tuned) all.insert_or_assign(entry->record.problem, entry->record);
  }
  std::vector<Record> records;
  records.reserve(all.size());
  for (auto& [problem, record] : all) records.push_back(std::move(record));
  return records;
}

std::string SessionState::GetResults() const { return FormatResults(Records(), CpuFingerprint()); }

Status SessionState::SaveCache(const std::string& path) {
  return SaveFile(path, Records(), CpuFingerprint());
}

void SessionState::SaveOwnCache(const Log& log) noexcept {
  try {
    if (options_.cache_path.empty() || !dirty_.exchange(false)) return;
    last_save_ms_.store(SteadyMs());
    if (Status status = SaveCache(options_.cache_path); !status.ok()) {
      dirty_.store(true);
      const std::string line =
          "cache '" + options_.cache_path + "' not saved: " + std::string(status.message());
      log.Warning(line);
      Note(line);
    }
  } catch (...) {
    log.Error("cache '" + options_.cache_path + "' not saved: out of memory");
  }
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
  if (notes_.size() < kMaxNotes) notes_.push_back(std::move(line));
}

}  // namespace tunableop
