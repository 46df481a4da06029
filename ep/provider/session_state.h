// What one session knows: its options, its shape cache, what it counted and what it decided.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cache/crash_journal.h"
#include "cache/fingerprint.h"
#include "cache/knowledge.h"
#include "cache/neighbours.h"
#include "cache/record.h"
#include "cache/session_cache.h"
#include "gemm/backend.h"
#include "provider/background.h"
#include "provider/budget.h"
#include "provider/capability.h"
#include "provider/choice_state.h"
#include "provider/form_choices.h"
#include "provider/gemm_node.h"
#include "provider/heap_trim.h"
#include "provider/log.h"
#include "provider/options.h"
#include "provider/profiler.h"
#include "provider/session_stats.h"
#include "provider/stock_backend.h"
#include "provider/target.h"
#include "provider/trace.h"
#include "tuner/form_race.h"
#include "tuner/machine_watch.h"
#include "tuner/tuner.h"

namespace tunableop {

class IdlePacer;

// How the reason of a denial begins that rests on a process's death while the kernel ran.
inline constexpr std::string_view kDeathReason = "a process ended while it ran";
// How Entry::why begins when a suspect runs for want of any other kernel.
inline constexpr std::string_view kEveryKernelIsDenied = "every kernel is denied";

// Thread-safe. Lives as long as its provider; the control interface may hold it a little longer.
class SessionState {
 public:
  // `target` is restricted to what the options name (Target::Restricted).
  SessionState(Options options, Log log, Target target);
  ~SessionState();
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  const Options& options() const noexcept { return options_; }
  const Target& target() const noexcept { return target_; }
  const Log& log() const noexcept { return log_; }
  TuningMode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  // Whether anything may be measured unasked.
  bool Measures() const noexcept {
    const TuningMode mode = this->mode();
    return mode == TuningMode::kOnline || mode == TuningMode::kBackground;
  }
  // Takes effect with the next call; what was learned is kept.
  void SetMode(TuningMode mode);

  // Runs one GEMM with the kernel that the cache knows; otherwise finds one as the mode says. A hit
  // takes no lock, allocates nothing, does no I/O and writes no log line above debug.
  Status Run(const Problem& problem, const Operands& operands, Executor& executor, GemmNode& node);

  // Calls run(form) with the form that is chosen for the shape, or with several where that is to be
  // measured; `run` queues its work on `queue`, and the same answers each time. A known shape takes
  // no lock and allocates nothing.
  template <typename RunForm>
  Status RunInForm(const FormCall& call, const DeviceQueue& queue, const RunForm& run) {
    if (!UsesChoices()) return run(call.usual);
    const FormChoice* choice = forms_.Find(call.key);
    if (choice != nullptr && choice->settled.load(std::memory_order_acquire)) {
      return run(choice->form.load(std::memory_order_relaxed));
    }
    return RunUnsettledForm(call, queue, std::cref(run));
  }

  // Threads of ONNX Runtime's pool, found at the first call (or given by an option).
  int Threads(const OrtKernelContext* context);

  // Reading and writing what was learned. Errors name file, field, expected and found.
  // The number of entries taken; refused ones are logged as warnings and appended to `problems`.
  size_t SetResults(std::string_view json, std::string_view origin,
                    std::vector<std::string>& problems);
  std::string GetResults() const;
  Status LoadCache(const std::string& path, std::vector<std::string>& problems);
  // What options().cache_path holds, when the session begins: nothing that is worth saving. Learns
  // as well of processes that a kernel killed.
  Status LoadOwnCache();
  // Waits for another process that is saving to the same file, for `patience_ms` at most; then
  // kBusy.
  Status SaveCache(const std::string& path, int patience_ms = kPatienceMs);
  // Saves to options().cache_path if there is one and something new was learned. Logs what goes
  // wrong; what was not saved is tried again later.
  void SaveOwnCache() noexcept { SaveOwnCache(log_); }
  // For the end of the session, whose own logger may be gone by then; and for runs, which do not
  // wait for another process's lock.
  void SaveOwnCache(const Log& log, int patience_ms = kPatienceMs) noexcept;
  // True when something was learned since the last save to options().cache_path.
  bool dirty() const noexcept { return dirty_.load(std::memory_order_relaxed); }

  // Measuring on demand (tune, warm), on the calling thread and regardless of budgets and uses.
  // While collecting, every problem that has no measured choice waits to be measured from its first
  // use on, and the background thread rests.
  void Collect(bool on);
  struct Tuned {
    size_t count = 0;
    size_t pending = 0;
    std::string last;  // one line for a person
  };
  // At most `most` of the problems that wait.
  Result<Tuned> TunePending(size_t most);
  // The problems that were recorded (tuning=record, or the file's) and have no measured choice wait
  // from now on, with made-up operands. Returns how many.
  size_t QueueRecorded();

  // Ends the background thread. Nothing is measured in the background after it.
  void StopBackground() noexcept;

  // Which kernels are chosen now, as far as a captured graph has to know.
  ChoiceState Choices();

  SessionStats Stats() const;
  std::vector<NodeDecision> Decisions() const;
  std::vector<std::shared_ptr<const Entry>> Entries() const { return cache_.Entries(); }
  std::vector<FormChoices::View> Forms() const { return forms_.Views(); }
  // Of the last measurement of this problem (measure_mode=2).
  PerfReading CountersOf(uint64_t hash) const;
  // Why this entry's kernel runs, as of now: one line for a person.
  std::string WhyOf(const Entry& entry) const;
  // The problems that were refused while loading, and rejected candidates: lines for a report.
  std::vector<std::string> Notes() const;
  // "better left to the stock provider: ..." when what was measured says so.
  std::optional<std::string> StockIsFaster(std::string_view op, std::string_view name, int64_t k,
                                           int64_t n) const;

  // ONNX Runtime asks in rounds, subgraphs first and the main graph last, and again after it
  // changed a graph (when it inlined a function). The last whole round is what holds. Names of
  // subgraphs cannot tell them apart: both branches of an If may have the same.
  void AddDecisions(std::vector<NodeDecision> decisions, bool ends_round);
  std::shared_ptr<GemmNode> AddNode(std::string op, std::string name);
  void AddWeight(size_t bytes) noexcept {
    weight_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // The user asked for graphs, and there are none: a line for the log and the report.
  void NoteGraphs(std::string line);

  HeapTrim& heap_trim() noexcept { return heap_trim_; }
  // Where runs are told to ONNX Runtime's profile. A profiler may hold it longer than the session.
  const std::shared_ptr<ProfilerSink>& profiler() const noexcept { return profiler_; }

 private:
  struct ProblemHash {
    size_t operator()(const Problem& problem) const noexcept { return Hash(problem); }
  };
  struct Known {
    Record record;
    std::string why;       // Entry::why
    bool learned = false;  // among learned_: may be dropped
    std::string stale;     // why it has to be measured again, from the start
  };

  // session_run.cc: one call.
  Status RunUncached(const Problem& problem, const Operands& operands, Executor& executor,
                     GemmNode& node);
  // A call that has something to do beside running the entry's kernel. `entry` is guarded.
  Status RunWatched(const Entry& entry, const Problem& problem, const Operands& operands,
                    Executor& executor, GemmNode& node);
  bool Reporting() const noexcept {
    return reporting_.load(std::memory_order_relaxed) || profiler_->enabled();
  }
  void Report(const Entry& entry, bool hit, int64_t begin_ns, int64_t end_ns) const;
  // Runs an entry's kernel, and reports it where that is asked for.
  Status RunReported(const Entry& entry, const Operands& operands, Executor& executor,
                     GemmNode& node, bool hit);
  // The entry for a problem that was loaded but not met yet, or that another m of its range
  // decided; nullptr when there is none that can be used.
  std::shared_ptr<const Entry> Adopt(const Problem& problem);
  std::shared_ptr<const Entry> AdoptRange(const Problem& problem);
  // The default was kept for want of time, of which there is more here.
  bool WantsMoreTime(const Record& record) const noexcept;
  Status RunDefault(const Problem& problem, const Operands& operands, Executor& executor,
                    GemmNode& node);
  // Runs an entry's kernel. `entry` is guarded or the caller's.
  Status RunPlan(const Entry& entry, const Operands& operands, Executor& executor, GemmNode& node) {
    if (entry.plan_without_copy == nullptr) return entry.plan->Run(operands, executor);
    return RunOnCopy(entry, operands, executor, node);
  }
  // Calls that measure forms are nobody's.
  void CountHit(GemmNode& node, uint64_t hash) const noexcept;
  // A graph is being captured on the card's stream.
  static bool IsCapturing(const Executor& executor) noexcept;
  // The kernel for an unmeasured problem: that of the nearest measured m, or the default.
  Result<std::shared_ptr<const Entry>> DefaultEntry(const Problem& problem);
  // Puts an entry of the default kernel into the cache, unless better is known meanwhile.
  void PutDefault(std::shared_ptr<const Entry> entry);
  void StartFromNeighbour(Entry& entry);
  // Whether it is too early to try and measure it (again).
  bool IsPutOff(const Entry& entry) const noexcept;
  // Runs what there is, and does not try to measure it for a moment.
  Status RunPutOff(const Problem& problem, const Operands& operands, Executor& executor,
                   GemmNode& node, Fallback reason, int64_t for_ns);

  // session_tuning.cc: measuring one problem, now.
  // One measurement at a time in the whole process: two at once would time each other.
  static std::mutex& Measuring() noexcept;
  // When (SteadyNow) somebody wanted that lock for a caller who waits, and did not get it.
  static std::atomic<int64_t>& MeasuringWanted() noexcept;
  Status TuneAndRun(const Problem& problem, const Operands& operands, Executor& executor,
                    GemmNode& node);
  struct How {
    IdlePacer* pacer = nullptr;
    bool with_stock = false;
    const Entry* serving = nullptr;  // of a choice that is measured again
  };
  // What a measurement's copies of C leave behind in the heap: each m has another size, which fits
  // into no hole of the last one.
  void GiveBackScratch(const Problem& problem) noexcept;
  // The caller holds the lock on measuring.
  Result<std::shared_ptr<const Entry>> Measure(const Problem& problem, const Operands& operands,
                                               Executor& executor, const How& how);
  // What the stock provider's kernel takes for the same; ms is 0 when that is not known.
  struct StockFigure {
    double ms = 0.0;
    bool wins = false;
  };
  // session_stock.cc.
  StockFigure StockAlone(const Problem& problem, const Operands& operands, Executor& executor,
                         const TuneResult& result, Pacer* pacer);
  std::shared_ptr<const Entry> MakeEntry(const Problem& problem, const TuneResult& result,
                                         const StockFigure& stock, const How& how);
  // A second measurement that found out less than the first: what is known stays, and holds for
  // another time to live.
  static bool SaysLess(const TuneResult& result, const Record& known) noexcept;
  std::shared_ptr<const Entry> Renew(const Entry& serving, const TuneResult& result);
  // Whether the mode at present lets measured choices serve.
  bool UsesChoices() const noexcept {
    return mode() != TuningMode::kOff && mode() != TuningMode::kRecord;
  }
  // Puts a measured entry into the cache, and its record among the known.
  void PutTuned(std::shared_ptr<const Entry> entry);
  bool IsCold(const Problem& problem) const noexcept;
  TrialJournal* Journal();

  // session_forms.cc: forms of kernels that have several.
  using RunOfForm = std::function<Status(size_t form)>;
  Status RunUnsettledForm(const FormCall& call, const DeviceQueue& queue, const RunOfForm& run);
  // The choice is this thread's to measure.
  Status MeasureForm(FormChoice& choice, const FormCall& call, const DeviceQueue& queue,
                     const RunOfForm& run);
  // Each once. `failure`: of another form than the usual one.
  static Status RunAllForms(const FormCall& call, const RunOfForm& run, std::string& failure);
  // `order`: the usual form first. The caller holds the lock on measuring.
  Result<FormResult> RaceInOrder(std::span<const size_t> order, const FormCall& call,
                                 const DeviceQueue& queue, const RunOfForm& run);
  std::string FormIdentity() const;  // what FormRecord::library_identity is here
  size_t TakeForms(std::vector<FormRecord> records, std::string_view origin,
                   std::vector<std::string>& refused);

  // session_card.cc: what only a card has.
  Result<TuneResult> TuneOnCard(const Problem& problem, const Operands& operands,
                                Executor& executor, const TunerOptions& options);
  // The default kernel, where `plan` needs a copy of B (`plan` itself: there is none that does
  // not); null otherwise.
  std::shared_ptr<const Plan> PlanWithoutCopy(const Problem& problem,
                                              const std::shared_ptr<const Plan>& plan) const;
  // Runs a plan that reads a transposed copy of the weight, which is made in its first call.
  Status RunOnCopy(const Entry& entry, const Operands& operands, Executor& executor,
                   GemmNode& node);
  // Null: there is no memory for it, or it cannot be made now.
  const void* MakeTransposed(const Entry& entry, const Operands& operands, Executor& executor,
                             GemmNode& node);
  // Copies of operands to be measured on later.
  Result<PendingTuning> CopyForLater(const Problem& problem, const Operands& operands,
                                     Executor& executor, const GemmNode& node);
  Result<std::shared_ptr<const Entry>> MeasurePendingOnCard(const PendingTuning& pending,
                                                            const How& how);

  // session_background.cc: what waits to be measured, and what has to be measured again.
  void ConsiderTuning(const Entry& entry, const Problem& problem, const Operands& operands,
                      Executor& executor, const GemmNode& node) noexcept;
  // Copies the operands and queues; false: no room, memory or thread at present. `worth_ms`: of
  // an entry that is not tuned.
  bool Queue(const Entry& entry, const Problem& problem, const Operands& operands,
             Executor& executor, const GemmNode& node, double worth_ms) noexcept;
  // It waits no longer, was not measured, and may be queued again after `for_ns`.
  void Release(const Problem& problem, int64_t for_ns) noexcept;
  double MeasureInBackground(PendingTuning&& pending, const std::atomic<bool>& stop);
  // kOutOfMemory as well where there are no threads. The caller holds the lock on measuring.
  Result<std::shared_ptr<const Entry>> MeasurePending(const PendingTuning& pending,
                                                      IdlePacer* pacer);
  void LookAround();
  void MarkStale();

  // session_results.cc: what was learned.
  // Forgets the choices that fell on a kernel which has given a wrong answer since.
  void ForgetDenied();
  Status LoadRecords(const std::string& path, std::vector<std::string>& problems, size_t& taken);
  // Keeps what this process can use; returns how many entries.
  size_t Take(Knowledge knowledge, std::vector<std::string> refused, std::string_view origin,
              std::vector<std::string>& problems);
  // Empty: it can be used. `stale`: though only until it is measured again.
  std::string WhyRefused(const Record& record, std::string& stale) const;
  void TakeDenied(std::vector<DeniedRecord> denied);
  void LearnOfDeaths();
  Knowledge Learned() const;
  std::vector<Record> Records() const;
  std::vector<NodeRecord> NodeRecords(const std::vector<Record>& records) const;
  std::vector<DeniedRecord> DeniedRecords() const;
  std::vector<SeenRecord> SeenRecords() const;
  // Hits by Hash(problem), over all nodes.
  std::unordered_map<uint64_t, uint64_t> UsesByHash() const;
  uint64_t UsesOf(uint64_t hash) const;
  // For tuning=record: a problem was met that the cache did not hold.
  void CountSeen(const Problem& problem);
  void Note(std::string line);

  static constexpr int kPatienceMs = 30'000;
  // After a measurement the file is written at most this often; the rest is written when the
  // session ends.
  static constexpr int64_t kSaveIntervalMs = 2000;

  const Options options_;
  const Target target_;
  const Log log_;
  const int64_t born_ns_;
  std::atomic<TuningMode> mode_;
  SessionCache cache_;
  FormChoices forms_;
  HeapTrim heap_trim_;
  const std::shared_ptr<ProfilerSink> profiler_ = std::make_shared<ProfilerSink>();
  std::atomic<size_t> weight_bytes_{0};
  std::atomic<size_t> transposed_bytes_{0};  // of the copies of weights that RunOnCopy made
  std::atomic<int> threads_{0};
  std::mutex threads_mutex_;
  // Every call is reported: TUNABLEOP_VERBOSE or debug lines.
  std::atomic<bool> reporting_{false};
  std::atomic<bool> collecting_{false};

  // Loaded records, prepared when first met so that loading stays cheap, and those of this
  // session's measurements, so that a problem whose plan was evicted is neither lost nor measured
  // again. Endless distinct shapes would make endless records of the latter: beyond 16 times the
  // cache's size the oldest go. Whoever holds known_mutex_ may change cache_ too (not the other way
  // round): what both say of a problem changes under it.
  mutable std::mutex known_mutex_;
  std::unordered_map<Problem, Known, ProblemHash> known_;
  std::unordered_map<Problem, Known, ProblemHash> ranges_;  // by RangeKey; go with their records
  std::deque<Problem> learned_;                             // the oldest first
  Neighbours neighbours_;
  std::unordered_map<uint64_t, PerfReading> counters_;
  std::vector<NodeRecord> nodes_known_;
  std::vector<DeniedRecord> denied_known_;
  std::unordered_map<Problem, uint64_t, ProblemHash> seen_;
  std::atomic<uint64_t> denials_seen_{0};
  std::atomic<uint64_t> choice_changes_{0};  // see Choices
  std::atomic<uint64_t> choices_denied_{0};

  TuningBudget budget_;
  BackgroundTuner background_;
  std::shared_ptr<const StockBackend> stock_;
  std::unique_ptr<CrashJournal> journal_;  // used by who holds the lock on measuring
  bool journal_tried_ = false;
  std::unique_ptr<Trace> trace_;
  std::unique_ptr<MachineWatch> watch_;

  std::atomic<uint64_t> tuned_{0};
  std::atomic<uint64_t> forms_measured_{0};
  std::atomic<uint64_t> revalidated_{0};
  std::atomic<uint64_t> denied_{0};
  std::atomic<int64_t> tuning_microseconds_{0};
  std::atomic<int64_t> no_memory_until_ns_{0};  // nothing is measured before
  std::atomic<bool> dirty_{false};
  std::atomic<int64_t> last_save_ms_{0};
  std::atomic<int64_t> last_look_ms_{0};

  mutable std::mutex report_mutex_;
  std::vector<NodeDecision> decisions_;   // of the last whole round
  std::vector<NodeDecision> this_round_;  // of the subgraphs asked about since
  std::vector<std::string> notes_;
  std::vector<std::shared_ptr<GemmNode>> nodes_;
  std::map<std::string, uint64_t> rejected_;  // by the first words of the reason
};

// A problem without its m and what follows from it, but for the range that m is in: what an entry
// of a range is kept under.
Problem RangeKey(const Problem& problem) noexcept;

}  // namespace tunableop
