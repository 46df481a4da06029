// What one session knows: its options, its shape cache, what it counted and what it decided.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cache/fingerprint.h"
#include "cache/record.h"
#include "cache/session_cache.h"
#include "gemm/backend.h"
#include "provider/capability.h"
#include "provider/heap_trim.h"
#include "provider/log.h"
#include "provider/options.h"
#include "provider/profiler.h"

namespace tunableop {

// Counters of one node, on a cache line of their own so that nodes do not slow each other down.
struct alignas(64) NodeCounters {
  std::atomic<uint64_t> hits{0};      // ran what the cache knew
  std::atomic<uint64_t> misses{0};    // the cache did not know the problem
  std::atomic<uint64_t> defaults{0};  // ran the default kernel because the mode never measures;
                                      // with tuning=cached a miss as well
};

struct SessionStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t tuned = 0;           // problems measured by this session
  double tuning_seconds = 0.0;  // wall clock spent measuring
  uint64_t evicted = 0;
  uint64_t entries = 0;  // problems the cache can serve: in use, and loaded but not met yet
  uint64_t denied = 0;   // candidates that lost their place (wrong, failing)
  std::map<std::string, uint64_t>
      fallbacks;  // runs on the default kernel for want of a choice, by reason
};

// Thread-safe. Lives as long as its provider; the control interface may hold it a little longer.
class SessionState {
 public:
  SessionState(Options options, Log log);

  const Options& options() const noexcept { return options_; }
  const Log& log() const noexcept { return log_; }

  // Runs one GEMM with the kernel that the cache knows; otherwise finds one as the mode says. A hit
  // takes no lock, allocates nothing, does no I/O and writes no log line above debug.
  Status Run(const Problem& problem, const Operands& operands, Executor& executor,
             NodeCounters& counters);

  // Threads of ONNX Runtime's pool, found at the first call (or given by an option).
  int Threads(const OrtKernelContext* context);

  // Reading and writing what was learned. Errors name file, field, expected and found.
  // The number of entries taken; refused ones are logged as warnings and appended to `problems`.
  size_t SetResults(std::string_view json, std::string_view origin,
                    std::vector<std::string>& problems);
  std::string GetResults() const;
  Status LoadCache(const std::string& path, std::vector<std::string>& problems);
  // What options().cache_path holds, when the session begins: nothing that is worth saving.
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

  SessionStats Stats() const;
  std::vector<NodeDecision> Decisions() const;
  std::vector<std::shared_ptr<const Entry>> Entries() const { return cache_.Entries(); }
  // The problems that were refused while loading, and rejected candidates: lines for a report.
  std::vector<std::string> Notes() const;

  // ONNX Runtime asks in rounds, subgraphs first and the main graph last, and again after it
  // changed a graph (when it inlined a function). The last whole round is what holds. Names of
  // subgraphs cannot tell them apart: both branches of an If may have the same.
  void AddDecisions(std::vector<NodeDecision> decisions, bool ends_round);
  std::shared_ptr<NodeCounters> AddNode();
  HeapTrim& heap_trim() noexcept { return heap_trim_; }
  // Where runs are told to ONNX Runtime's profile. A profiler may hold it longer than the session.
  const std::shared_ptr<ProfilerSink>& profiler() const noexcept { return profiler_; }

 private:
  Status RunUncached(const Problem& problem, const Operands& operands, Executor& executor,
                     NodeCounters& counters);
  // The entry for a problem that was loaded but not met yet; nullptr when there is none that can be
  // used.
  std::shared_ptr<const Entry> Adopt(const Problem& problem);
  Status TuneAndRun(const Problem& problem, const Operands& operands, Executor& executor,
                    NodeCounters& counters);
  Status RunDefault(const Problem& problem, const Operands& operands, Executor& executor);
  Result<std::shared_ptr<const Entry>> DefaultEntry(const Problem& problem);
  // Puts an entry of the default kernel into the cache, unless better is known meanwhile.
  void PutDefault(std::shared_ptr<const Entry> entry);
  // Puts a measured entry into the cache, and its record among the known.
  void PutTuned(std::shared_ptr<const Entry> entry);
  // Forgets the choices that fell on a kernel which has given a wrong answer since.
  void ForgetDenied();
  Status LoadRecords(const std::string& path, std::vector<std::string>& problems, size_t& taken);
  // Keeps the records that this process can use; returns how many.
  size_t Take(std::vector<Record> records, std::vector<std::string> refused,
              std::string_view origin, std::vector<std::string>& problems);
  std::vector<Record> Records() const;
  void Note(std::string line);

  const Options options_;
  const Log log_;
  SessionCache cache_;
  HeapTrim heap_trim_;
  const std::shared_ptr<ProfilerSink> profiler_ = std::make_shared<ProfilerSink>();
  std::atomic<int> threads_{0};
  std::mutex threads_mutex_;

  static constexpr int kPatienceMs = 30'000;

  // Loaded records, prepared when first met so that loading stays cheap, and those of this
  // session's measurements, so that a problem whose plan was evicted is neither lost nor measured
  // again. Endless distinct shapes would make endless records of the latter: beyond 16 times the
  // cache's size the oldest go. Whoever holds known_mutex_ may change cache_ too (not the other way
  // round): what both say of a problem changes under it.
  struct ProblemHash {
    size_t operator()(const Problem& problem) const noexcept { return Hash(problem); }
  };
  mutable std::mutex known_mutex_;
  struct Known {
    Record record;
    std::string why;       // Entry::why
    bool learned = false;  // among learned_: may be dropped
  };
  std::unordered_map<Problem, Known, ProblemHash> known_;
  std::deque<Problem> learned_;  // the oldest first
  std::atomic<uint64_t> denials_seen_{0};

  std::atomic<uint64_t> tuned_{0};
  std::atomic<uint64_t> denied_{0};
  std::atomic<int64_t> tuning_microseconds_{0};
  std::atomic<uint64_t> busy_{0};  // ran the default kernel because a measurement was under way
  std::atomic<uint64_t> out_of_memory_{0};  // ran the default kernel: no memory to measure
  std::atomic<bool> dirty_{false};
  std::atomic<int64_t> last_save_ms_{0};

  mutable std::mutex report_mutex_;
  std::vector<NodeDecision> decisions_;   // of the last whole round
  std::vector<NodeDecision> this_round_;  // of the subgraphs asked about since
  std::vector<std::string> notes_;
  std::vector<std::shared_ptr<NodeCounters>> nodes_;
};

}  // namespace tunableop
