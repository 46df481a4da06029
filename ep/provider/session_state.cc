#include "provider/session_state.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "provider/decisions.h"
#include "provider/thread_probe.h"
#include "tuner/clock.h"
#include "tuner/deny_list.h"

namespace tunableop {
namespace {

constexpr size_t kMaxNotes = 256;

// Of max_tuning_bytes, which is what a measurement may write to: what waits, and what the stock
// provider's kernel may take for its copies of a weight, are beside it.
constexpr size_t kQueueShare = 4;
constexpr size_t kStockShare = 2;

Options WithDefaults(Options options, const Target& target) {
  if (!options.limits_scratch) options.tuner.max_scratch_bytes = target.DefaultScratchBytes();
  if (!options.limits_time) options.tuner.max_tuning_ms = target.DefaultTuningMs();
  return options;
}

}  // namespace

SessionState::SessionState(Options options, Log log, Target target)
    : options_(WithDefaults(std::move(options), target)),
      target_(std::move(target)),
      log_(log),
      born_ns_(SteadyNow()),
      mode_(options_.tuning),
      cache_(options_.cache_size),
      neighbours_(4 * options_.cache_size),
      budget_(options_.max_session_ms, options_.max_day_ms),
      background_({[this](PendingTuning&& pending, const std::atomic<bool>& stop) {
                     return MeasureInBackground(std::move(pending), stop);
                   },
                   [this] { LookAround(); }},
                  options_.tuner.max_scratch_bytes / kQueueShare, options_.background_share),
      stock_(MakeStockBackend(options_.tuner.max_scratch_bytes / kStockShare)),
      watch_(std::make_unique<MachineWatch>([this] { return target_.MakeSensors(); })) {
  reporting_.store(options_.verbose || log_.debug_enabled());
  if (options_.trace_path.empty()) return;
  Result<std::unique_ptr<Trace>> trace = Trace::Open(options_.trace_path);
  if (trace.ok()) {
    trace_ = std::move(trace).value();
  } else {
    Note(std::string(trace.status().message()));
    log_.Warning(std::string(trace.status().message()));
  }
}

SessionState::~SessionState() { background_.Stop(); }

void SessionState::SetMode(TuningMode mode) {
  const TuningMode before = mode_.exchange(mode);
  if (before == mode) return;
  background_.Clear();
  const std::lock_guard lock(known_mutex_);
  if (before == TuningMode::kRecord) {
    // What was counted outlives the entries.
    for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
      if (!entry->tuned) seen_[entry->record.problem] += entry->notes.uses.load();
    }
    dirty_.store(true);
  }
  // Entries say what to run in the mode they were made in; what was learned is in known_.
  cache_.Clear();
  forms_.Unsettle();
  choice_changes_.fetch_add(1);
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

ChoiceState SessionState::Choices() {
  if (DenialCount() != denials_seen_.load(std::memory_order_relaxed)) ForgetDenied();
  return {choice_changes_.load(), choices_denied_.load(), background_.size() == 0};
}

void SessionState::NoteGraphs(std::string line) {
  line = "enable_graph=1: " + line;
  log_.Warning(line);
  Note(std::move(line));
}

SessionStats SessionState::Stats() const {
  SessionStats stats;
  std::unordered_map<uint64_t, uint64_t> uses = UsesByHash();
  {
    const std::lock_guard lock(report_mutex_);
    stats.rejected = rejected_;
    for (const std::shared_ptr<GemmNode>& node : nodes_) {
      stats.hits += node->counters.hits();
      stats.misses += node->counters.misses.load(std::memory_order_relaxed);
      for (size_t i = 0; i < static_cast<size_t>(Fallback::kCount); ++i) {
        const auto reason = static_cast<Fallback>(i);
        if (const uint64_t count = node->counters.fallbacks(reason); count > 0) {
          stats.fallbacks[std::string(Name(reason))] += count;
        }
      }
    }
  }
  stats.tuned = tuned_.load(std::memory_order_relaxed);
  stats.forms = forms_measured_.load(std::memory_order_relaxed);
  stats.revalidated = revalidated_.load(std::memory_order_relaxed);
  stats.tuning_seconds =
      static_cast<double>(tuning_microseconds_.load(std::memory_order_relaxed)) * 1e-6;
  stats.session_seconds = static_cast<double>(SteadyNow() - born_ns_) * 1e-9;
  stats.evicted = cache_.evicted();
  stats.denied = denied_.load(std::memory_order_relaxed);
  stats.pending = background_.size();
  stats.entries = Records().size();
  stats.tuning = Name(mode());
  for (const std::shared_ptr<const Entry>& entry : cache_.Entries()) {
    const Entry::Notes& notes = entry->notes;
    if (!entry->tuned) {
      stats.deferred += !notes.queued.load() && mode() == TuningMode::kBackground ? 1 : 0;
      continue;
    }
    stats.stale += notes.attention.load() || notes.queued.load() ? 1 : 0;
    // Of a default that was wrong or failed there is no time to save.
    if (entry->record.default_ms <= 0.0 || entry->record.winner_ms <= 0.0) continue;
    if (const auto found = uses.find(entry->hash); found != uses.end()) {
      stats.saved_seconds += (entry->record.default_ms - entry->record.winner_ms) * 1e-3 *
                             static_cast<double>(found->second);
    }
  }
  return stats;
}

PerfReading SessionState::CountersOf(uint64_t hash) const {
  const std::lock_guard lock(known_mutex_);
  const auto found = counters_.find(hash);
  if (found != counters_.end()) return found->second;
  PerfReading none;
  none.unavailable = options_.measure_mode == MeasureMode::kCounters
                         ? "not counted: this session has not measured the problem"
                         : "not counted: measure_mode is below 2";
  return none;
}

std::string SessionState::WhyOf(const Entry& entry) const {
  if (entry.tuned) return entry.why;
  std::string why = entry.why;
  const bool background = mode() == TuningMode::kBackground;
  // Where measuring would not help, the entry says why.
  if ((background || mode() == TuningMode::kOnline) && !why.starts_with(kEveryKernelIsDenied)) {
    switch (static_cast<Fallback>(entry.notes.reason.load(std::memory_order_relaxed))) {
      case Fallback::kSessionBudget:
        why = "not measured: max_session_ms is spent";
        break;
      case Fallback::kDayBudget:
        why = "not measured: max_day_ms is spent";
        break;
      case Fallback::kOutOfMemory:
        why = "not measured: no memory for it";
        break;
      case Fallback::kNotWorthYet:
        if (background) why = "not measured yet: its uses do not repay it so far";
        break;
      case Fallback::kWaiting:
        why = "not measured yet: it waits for an idle moment";
        break;
      default:
        break;
    }
  }
  if (entry.record.winner.FullName() != entry.record.default_kernel) {
    why += "; the winner of the nearest measured m serves";
  }
  return why;
}

uint64_t SessionState::UsesOf(uint64_t hash) const {
  const std::unordered_map<uint64_t, uint64_t> uses = UsesByHash();
  const auto found = uses.find(hash);
  return found == uses.end() ? 0 : found->second;
}

std::vector<NodeDecision> SessionState::Decisions() const {
  const std::lock_guard lock(report_mutex_);
  return decisions_;
}

void SessionState::AddDecisions(std::vector<NodeDecision> decisions, bool ends_round) {
  const std::lock_guard lock(report_mutex_);
  std::move(decisions.begin(), decisions.end(), std::back_inserter(this_round_));
  if (!ends_round) return;
  decisions_ = WithEarlier(decisions_, std::move(this_round_));
  this_round_.clear();
}

std::shared_ptr<GemmNode> SessionState::AddNode(std::string op, std::string name) {
  auto node = std::make_shared<GemmNode>();
  node->op = std::move(op);
  node->name = std::move(name);
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
