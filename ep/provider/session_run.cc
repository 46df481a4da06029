// SessionState: one GEMM call.
#include <cstdio>
#include <optional>
#include <utility>

#include "gemm/device_queue.h"
#include "provider/session_state.h"
#include "provider/without_measuring.h"
#include "tuner/clock.h"
#include "tuner/deny_list.h"

namespace tunableop {
namespace {

constexpr size_t kSeenPerEntry = 16;

constexpr const char* Mark(const Entry& entry, bool hit) noexcept {
  if (!entry.tuned) return "default";
  return hit ? "hit" : "tuned";
}

const char* WhyDefault(TuningMode mode) noexcept {
  switch (mode) {
    case TuningMode::kOff:
      return "tuning=off";
    case TuningMode::kCached:
      return "not in the cache";
    case TuningMode::kRecord:
      return "tuning=record";
    default:
      return "not measured yet";
  }
}

Fallback ReasonOf(const Entry& entry, TuningMode mode) noexcept {
  switch (mode) {
    case TuningMode::kOff:
      return Fallback::kTuningOff;
    case TuningMode::kRecord:
      return Fallback::kRecording;
    case TuningMode::kCached:
      return Fallback::kNotInCache;
    default:
      return static_cast<Fallback>(entry.notes.reason.load(std::memory_order_relaxed));
  }
}

}  // namespace

inline void SessionState::CountHit(GemmNode& node, uint64_t hash) const noexcept {
  if (!target_.is_gpu() || !WithoutMeasuring::Here()) node.counters.Hit(hash);
}

Status SessionState::Run(const Problem& problem, const Operands& operands, Executor& executor,
                         GemmNode& node) {
  if (DenialCount() != denials_seen_.load(std::memory_order_relaxed)) ForgetDenied();
  {
    const SessionCache::ReadGuard guard;
    const Entry* entry = cache_.Find(problem);
    if (entry != nullptr) {
      const bool attention = entry->notes.attention.load(std::memory_order_relaxed);
      if (entry->tuned && !attention && !Reporting()) {
        CountHit(node, entry->hash);
        return RunPlan(*entry, operands, executor, node);
      }
      if (entry->tuned || mode() != TuningMode::kOnline || IsPutOff(*entry)) {
        return RunWatched(*entry, problem, operands, executor, node);
      }
    }
  }
  return RunUncached(problem, operands, executor, node);
}

bool SessionState::IsCapturing(const Executor& executor) noexcept {
  const DeviceQueue* queue = executor.queue();
  return queue != nullptr && queue->device().IsCapturing(queue->stream());
}

bool SessionState::IsPutOff(const Entry& entry) const noexcept {
  if (collecting_.load(std::memory_order_relaxed)) return false;
  const int64_t until = entry.notes.next_try_ns.load(std::memory_order_relaxed);
  return until != 0 && SteadyNow() < until;
}

Status SessionState::RunWatched(const Entry& entry, const Problem& problem,
                                const Operands& operands, Executor& executor, GemmNode& node) {
  const TuningMode mode = this->mode();
  if (entry.tuned) {
    CountHit(node, entry.hash);
  } else {
    WithoutMeasuring::CountUnmeasured();
    node.counters.FellBack(ReasonOf(entry, mode));
    if (mode != TuningMode::kOff && mode != TuningMode::kRecord) {
      node.counters.misses.fetch_add(1, std::memory_order_relaxed);
    }
  }
  const bool reporting = Reporting();
  const bool counting = !entry.tuned && mode != TuningMode::kOff && mode != TuningMode::kCached;
  const bool attention = entry.notes.attention.load(std::memory_order_relaxed);
  if (!reporting && !counting && !attention) return RunPlan(entry, operands, executor, node);

  const int64_t begin = SteadyNow();
  TUNABLEOP_RETURN_IF_ERROR(RunPlan(entry, operands, executor, node));
  const int64_t end = SteadyNow();
  if (counting) {
    entry.notes.uses.fetch_add(1, std::memory_order_relaxed);
    entry.notes.nanoseconds.fetch_add(static_cast<uint64_t>(end - begin),
                                      std::memory_order_relaxed);
  }
  if (reporting) Report(entry, entry.tuned, begin, end);
  if (WithoutMeasuring::Here()) return Status::Ok();
  if (mode == TuningMode::kBackground || (attention && mode == TuningMode::kOnline)) {
    ConsiderTuning(entry, problem, operands, executor, node);
  }
  return Status::Ok();
}

void SessionState::Report(const Entry& entry, bool hit, int64_t begin_ns, int64_t end_ns) const {
  const Record& record = entry.record;
  if (profiler_->enabled()) {
    profiler_->Add(record.problem, record.winner, begin_ns, end_ns - begin_ns, hit);
  }
  if (log_.debug_enabled()) {
    log_.Debug(std::string(Mark(entry, hit)) + " (" + ToString(record.problem) +
               "): " + record.winner.FullName());
  }
  if (options_.verbose) {
    std::fprintf(stderr, "[TunableOp] gemm,%s,%s,%s,%.3f us\n", ToString(record.problem).c_str(),
                 record.winner.FullName().c_str(), Mark(entry, hit),
                 static_cast<double>(end_ns - begin_ns) * 1e-3);
  }
}

Status SessionState::RunReported(const Entry& entry, const Operands& operands, Executor& executor,
                                 GemmNode& node, bool hit) {
  if (!Reporting()) return RunPlan(entry, operands, executor, node);
  const int64_t begin = SteadyNow();
  TUNABLEOP_RETURN_IF_ERROR(RunPlan(entry, operands, executor, node));
  Report(entry, hit, begin, SteadyNow());
  return Status::Ok();
}

Status SessionState::RunUncached(const Problem& problem, const Operands& operands,
                                 Executor& executor, GemmNode& node) {
  const TuningMode mode = this->mode();
  const bool remembers = mode != TuningMode::kOff && mode != TuningMode::kRecord;
  if (remembers) {
    if (const std::shared_ptr<const Entry> entry = Adopt(problem)) {
      // A choice of another process grows old here as well. Without a thread it serves all the
      // same.
      if (options_.revalidate_ms > 0 && Measures()) static_cast<void>(background_.Start());
      CountHit(node, entry->hash);
      return RunReported(*entry, operands, executor, node, entry->tuned);
    }
    node.counters.misses.fetch_add(1, std::memory_order_relaxed);
    if (log_.debug_enabled()) log_.Debug("miss (" + ToString(problem) + ")");
  }
  WithoutMeasuring::CountUnmeasured();
  if (IsCapturing(executor)) {
    node.counters.FellBack(Fallback::kCapturing);
    return RunDefault(problem, operands, executor, node);
  }
  if (WithoutMeasuring::Here()) {
    node.counters.FellBack(Fallback::kTunerBusy);
    return RunDefault(problem, operands, executor, node);
  }
  if (mode == TuningMode::kOnline) return TuneAndRun(problem, operands, executor, node);
  if (mode == TuningMode::kOff || mode == TuningMode::kCached) {
    node.counters.FellBack(mode == TuningMode::kOff ? Fallback::kTuningOff : Fallback::kNotInCache);
    return RunDefault(problem, operands, executor, node);
  }
  Result<std::shared_ptr<const Entry>> entry = DefaultEntry(problem);
  if (!entry.ok()) return entry.TakeStatus();
  PutDefault(entry.value());
  node.counters.FellBack(ReasonOf(*entry.value(), mode));
  const int64_t begin = SteadyNow();
  TUNABLEOP_RETURN_IF_ERROR(RunPlan(*entry.value(), operands, executor, node));
  const int64_t end = SteadyNow();
  if (mode == TuningMode::kRecord) {
    CountSeen(problem);
  } else {
    entry.value()->notes.uses.fetch_add(1, std::memory_order_relaxed);
  }
  entry.value()->notes.nanoseconds.fetch_add(static_cast<uint64_t>(end - begin),
                                             std::memory_order_relaxed);
  if (Reporting()) Report(*entry.value(), false, begin, end);
  if (mode == TuningMode::kBackground)
    ConsiderTuning(*entry.value(), problem, operands, executor, node);
  return Status::Ok();
}

void SessionState::CountSeen(const Problem& problem) {
  const std::lock_guard lock(known_mutex_);
  // Endless distinct shapes would make endless records.
  if (seen_.size() < kSeenPerEntry * cache_.capacity() || seen_.contains(problem)) {
    ++seen_[problem];
    dirty_.store(true, std::memory_order_relaxed);
  }
}

std::shared_ptr<const Entry> SessionState::Adopt(const Problem& problem) {
  std::string refusal;
  {
    const std::lock_guard lock(known_mutex_);
    if (!UsesChoices()) return nullptr;  // since a moment ago: see SetMode
    const auto found = known_.find(problem);
    if (found == known_.end()) return AdoptRange(problem);
    const Known& known = found->second;
    // Kept for want of time, of which there is more here.
    if (WantsMoreTime(known.record)) return nullptr;
    const std::shared_ptr<const Backend> backend = target_.Find(known.record.winner.library);
    if (backend == nullptr) return nullptr;  // Take refuses such records; libraries do not vanish
    Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, known.record.winner);
    if (plan.ok()) {
      auto entry = std::make_shared<Entry>();
      entry->record = known.record;
      entry->plan = std::move(plan).value();
      entry->plan_without_copy = PlanWithoutCopy(problem, entry->plan);
      entry->tuned = true;
      entry->why = known.why;
      entry->hash = Hash(problem);
      entry->since_ns = SteadyNow();
      entry->notes.attention.store(!known.stale.empty(), std::memory_order_relaxed);
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

bool SessionState::WantsMoreTime(const Record& record) const noexcept {
  const TuningMode mode = this->mode();
  const bool measures = mode == TuningMode::kOnline || mode == TuningMode::kBackground;
  return measures && record.budget_ms > 0.0 && options_.tuner.max_tuning_ms > record.budget_ms;
}

std::shared_ptr<const Entry> SessionState::AdoptRange(const Problem& problem) {
  if (options_.buckets == Buckets::kOff) return nullptr;
  const auto found = ranges_.find(RangeKey(problem));
  if (found == ranges_.end()) return nullptr;
  const Known& known = found->second;
  const std::shared_ptr<const Backend> backend = target_.Find(known.record.winner.library);
  if (backend == nullptr) return nullptr;
  Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, known.record.winner);
  if (!plan.ok()) return nullptr;  // another m of the range supports it; this one is on its own
  auto entry = std::make_shared<Entry>();
  entry->record = known.record;
  entry->record.problem = problem;
  entry->record.winner_ms = 0.0;  // these are of another m
  entry->record.default_ms = 0.0;
  entry->record.stock_ms = 0.0;
  entry->plan = std::move(plan).value();
  entry->plan_without_copy = PlanWithoutCopy(problem, entry->plan);
  entry->tuned = true;
  entry->why = "m from " + std::to_string(known.record.m_low) + " to " +
               std::to_string(known.record.m_high) +
               ", measured at m=" + std::to_string(known.record.problem.m) + ": " + known.why;
  entry->hash = Hash(problem);
  entry->since_ns = SteadyNow();
  entry->notes.attention.store(!known.stale.empty(), std::memory_order_relaxed);
  cache_.Put(entry);
  return entry;
}

void SessionState::PutDefault(std::shared_ptr<const Entry> entry) {
  const Problem& problem = entry->record.problem;
  const std::lock_guard lock(known_mutex_);
  // Loaded meanwhile: an entry in the cache would hide it where nothing is measured.
  if (mode() == TuningMode::kCached && known_.contains(problem)) return;
  {
    const SessionCache::ReadGuard guard;
    const Entry* there = cache_.Find(problem);
    if (there != nullptr && there->tuned) return;  // measured meanwhile
  }
  cache_.Put(std::move(entry));
}

Result<std::shared_ptr<const Entry>> SessionState::DefaultEntry(const Problem& problem) {
  auto entry = std::make_shared<Entry>();
  entry->record.problem = problem;
  entry->hash = Hash(problem);
  entry->since_ns = SteadyNow();
  entry->notes.reason.store(static_cast<uint8_t>(Fallback::kNotWorthYet));
  const TuningMode mode = this->mode();
  std::string reasons;
  const auto take = [&](const Backend& backend, const Candidate& candidate) {
    Result<std::unique_ptr<Plan>> plan = backend.Prepare(problem, candidate);
    if (!plan.ok()) {
      reasons += "; " + candidate.FullName() + ": " + std::string(plan.status().message());
      return false;
    }
    entry->record.winner = candidate;
    entry->record.default_kernel = candidate.FullName();
    entry->plan = std::move(plan).value();
    entry->plan_without_copy = PlanWithoutCopy(problem, entry->plan);
    return true;
  };
  std::vector<std::pair<std::shared_ptr<const Backend>, Candidate>> suspected;
  for (const std::shared_ptr<const Backend>& backend : target_.backends()) {
    if (backend->may_hang()) continue;  // never unmeasured
    for (const Candidate& candidate : backend->Candidates(problem, CandidateScope::kDefault)) {
      if (const std::optional<std::string> denied = DenialOf(candidate)) {
        reasons += "; " + candidate.FullName() + " denied: " + *denied;
        if (denied->starts_with(kDeathReason)) suspected.emplace_back(backend, candidate);
        continue;
      }
      if (!take(*backend, candidate)) continue;
      entry->why = WhyDefault(mode);
      if (mode != TuningMode::kOff && mode != TuningMode::kRecord) StartFromNeighbour(*entry);
      return std::shared_ptr<const Entry>(std::move(entry));
    }
  }
  // A death is no proof: processes are killed for many reasons. Better than to answer nothing.
  for (const auto& [backend, candidate] : suspected) {
    if (!take(*backend, candidate)) continue;
    entry->why =
        std::string(kEveryKernelIsDenied) + ", this one only because " + std::string(kDeathReason);
    return std::shared_ptr<const Entry>(std::move(entry));
  }
  for (const std::shared_ptr<const Backend>& backend : target_.backends()) {
    if (const Status ready = backend->Ready(); !ready.ok()) {
      reasons += "; " + std::string(ready.message());
    }
  }
  return Status(StatusCode::kNotSupported,
                "no kernel can run (" + ToString(problem) + ")" + reasons);
}

void SessionState::StartFromNeighbour(Entry& entry) {
  const Problem& problem = entry.record.problem;
  const std::optional<Candidate> winner = neighbours_.Advice(problem);
  if (!winner || *winner == entry.record.winner || DenialOf(*winner)) return;
  const std::shared_ptr<const Backend> backend = target_.Find(winner->library);
  if (backend == nullptr || backend->may_hang()) return;
  Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, *winner);
  if (!plan.ok()) return;
  entry.record.winner = *winner;
  entry.plan = std::move(plan).value();
  entry.plan_without_copy = PlanWithoutCopy(problem, entry.plan);
}

Status SessionState::RunDefault(const Problem& problem, const Operands& operands,
                                Executor& executor, GemmNode& node) {
  {
    const SessionCache::ReadGuard guard;
    // With tuning=online an untuned entry is a miss, which its next use may measure; until then its
    // plan serves.
    if (const Entry* entry = cache_.Find(problem))
      return RunReported(*entry, operands, executor, node, entry->tuned);
  }
  Result<std::shared_ptr<const Entry>> entry = DefaultEntry(problem);
  if (!entry.ok()) return entry.TakeStatus();
  PutDefault(entry.value());
  return RunReported(*entry.value(), operands, executor, node, false);
}

}  // namespace tunableop
