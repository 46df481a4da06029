// Graphs of whole runs: recorded once, launched as one piece of work from then on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "gemm/status.h"
#include "provider/choice_state.h"
#include "provider/gpu/graph_run.h"
#include "provider/gpu/memory_pool.h"
#include "provider/gpu/queues.h"

namespace tunableop {

// One session's. Thread-safe.
//
// ONNX Runtime names a graph by the number that the caller of Run gives (`gpu_graph_id`). It runs
// the model again, within that call, until we say that the graph is captured; it then asks us to
// replay it, and looks at nothing else: shapes and buffers are those of the capture, and whoever
// gives the number answers for that.
//
// Of the runs that come before a replay the first is an ordinary one: problems are measured, and
// ONNX Runtime learns how much memory the run takes. The second takes its memory from the graph's
// own, which nobody else gets while the graph lives, and runs on the stream that graphs are
// recorded on, so that libraries have made there what they need. The third is recorded. The graph
// is launched on the session's own stream, in the order of everything else; so the other stream
// only does work in second runs, and one workspace serves all graphs. Second and third
// runs and replays take turns.
class Graphs {
 public:
  struct Limits {
    size_t graphs = 0;  // 0: no graphs at all
    size_t bytes = 0;   // of the memory that belongs to them
  };
  struct Stats {
    uint64_t alive = 0;
    uint64_t captured = 0;
    uint64_t replayed = 0;
    uint64_t recaptured = 0;                  // for a choice that has changed
    uint64_t discarded = 0;                   // captures of which nothing came
    uint64_t evicted = 0;                     // for want of room
    uint64_t bytes = 0;                       // of memory that belongs to them
    std::map<std::string, uint64_t> refused;  // numbers that run without a graph, by reason
  };

  // The pools are those of the same session.
  Graphs(Limits limits, std::shared_ptr<StreamQueues> streams, std::shared_ptr<MemoryPool> memory,
         std::shared_ptr<MemoryPool> host_memory);
  ~Graphs() { Close(); }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  bool enabled() const noexcept { return limits_.graphs > 0; }

  // Around each run, on its thread. `id` below 1: a run without a graph. After an error of Start
  // there is no End. `kernels`: of ours in the model; a run in which not all of them were called
  // was not whole.
  Status Start(int id, const ChoiceState& choices);
  Status End(uint64_t kernels);

  // What ONNX Runtime asks after a run, and when the session is made: whether it should run the
  // model again where there is no graph yet.
  bool WantsGraph() const noexcept;
  bool IsCaptured(int id, const ChoiceState& choices) noexcept;
  // Returns when the card is done. kNotFound: there is no such graph (any more).
  Status Replay(int id);
  // The same for who keeps the buffers that were bound: fills some from the host's memory before,
  // and fetches others after. kNotFound as well where the graph has to be captured anew: by Run.
  struct Transfer {
    void* card;
    void* host;
    size_t bytes;
  };
  Status Replay(int id, const ChoiceState& choices, std::span<const Transfer> in,
                std::span<const Transfer> out);
  // Without one: nothing to do. `for_room`: others need it.
  void Release(int id, bool for_room) noexcept;

  struct View {
    bool captured = false;
    size_t bytes = 0;  // that belong to it
    std::string refused;
  };
  View Look(int id) const;

  const Limits& limits() const noexcept { return limits_; }
  Stats stats() const;

  // The session ends. A lost card is not waited for.
  void Close() noexcept;

 private:
  struct Slot {
    uint32_t memory = 0;  // its name in the pools
    int runs = 0;         // whole ones, towards a capture
    int failures = 0;     // runs of which nothing came, in a row
    DeviceGraph graph;
    ChoiceState choices;  // of the capture
    uint64_t used = 0;    // the larger, the later
    std::string refused;  // why there will be no graph; empty: there may
  };

  // Launches it, behind `in`.
  Status Launch(int id, const ChoiceState* choices, std::span<const Transfer> in);
  // All of the following: the caller holds the lock.
  Slot* Captured(int id) noexcept;
  static bool IsOld(const Slot& slot, const ChoiceState& choices) noexcept;
  size_t BytesOf(const Slot& slot) const noexcept;
  Slot& SlotOf(int id);
  void Refuse(Slot& slot, std::string why);
  void Drop(Slot& slot) noexcept;
  void EvictOthers(int id);
  Status MakeQueue();
  Status BeginRun(Slot& slot, GraphRun& run);
  Status EndRun(Slot& slot, bool whole);
  Status EndCapture(Slot& slot, bool whole);
  void Fail(Slot& slot, std::string why);
  bool dead() const noexcept;

  const uint64_t name_;  // of no other object of this process, not even a later one
  const Limits limits_;
  const std::shared_ptr<StreamQueues> streams_;
  const std::shared_ptr<MemoryPool> memory_;
  const std::shared_ptr<MemoryPool> host_memory_;
  const uint64_t forks_;

  mutable std::mutex turn_;  // held during second and third runs, too
  std::map<int, Slot> slots_;
  DeviceStream stream_;  // to record on
  std::unique_ptr<DeviceQueue> queue_;
  uint32_t last_memory_ = 0;
  uint64_t clock_ = 0;
  Stats stats_;
  bool closed_ = false;
};

}  // namespace tunableop
