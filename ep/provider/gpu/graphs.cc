#include "provider/gpu/graphs.h"

#include <algorithm>
#include <utility>

#include "provider/per_process.h"

namespace tunableop {
namespace {

// As StreamQueues gives to its first streams.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr int kOrdinaryRuns = 1;
constexpr int kRunsBeforeCapture = 2;
// Each costs two runs, and ONNX Runtime gives up after eight within one call.
constexpr int kMostFailures = 2;

thread_local GraphRun* current_run = nullptr;

// Of the run that ended last on this thread.
struct LastRun {
  const Graphs* of = nullptr;
  int id = 0;
  bool again = true;    // ONNX Runtime should run it again, if there is no graph
  bool undone = false;  // it was recorded, and nothing came of it: its results are missing
  bool asked = true;    // ONNX Runtime has asked since
};
thread_local LastRun last_run;

}  // namespace

GraphRun* CurrentGraphRun() noexcept { return current_run; }

GraphRun* CurrentGraphRun(const StreamQueues* session) noexcept {
  return current_run != nullptr && current_run->session == session ? current_run : nullptr;
}

void SetCurrentGraphRun(GraphRun* run) noexcept { current_run = run; }

Graphs::Graphs(Limits limits, std::shared_ptr<StreamQueues> streams,
               std::shared_ptr<MemoryPool> memory, std::shared_ptr<MemoryPool> host_memory)
    : limits_(limits),
      streams_(std::move(streams)),
      memory_(std::move(memory)),
      host_memory_(std::move(host_memory)),
      forks_(Forks()) {}

bool Graphs::dead() const noexcept { return forks_ != Forks() || streams_->device()->lost(); }

Graphs::Slot& Graphs::SlotOf(int id) {
  const auto found = slots_.find(id);
  if (found != slots_.end()) return found->second;
  while (slots_.size() >= limits_.graphs) {
    const auto oldest = std::min_element(
        slots_.begin(), slots_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    if (oldest->second.graph) ++stats_.evicted;
    Drop(oldest->second);
    slots_.erase(oldest);
  }
  Slot& slot = slots_[id];
  slot.memory = ++last_memory_;
  return slot;
}

void Graphs::Drop(Slot& slot) noexcept {
  if (dead()) {
    slot.graph.Abandon();
    return;
  }
  // It may be running, and its memory with it.
  if (slot.graph) static_cast<void>(streams_->device()->Synchronize(streams_->own()));
  slot.graph = DeviceGraph();
  memory_->Disown(slot.memory);
  host_memory_->Disown(slot.memory);
}

void Graphs::Refuse(Slot& slot, std::string why) {
  Drop(slot);
  ++stats_.refused[why];
  slot.refused = std::move(why);
}

void Graphs::EvictOthers(int id) {
  const auto bytes_of = [this](const Slot& slot) {
    return memory_->BytesOf(slot.memory) + host_memory_->BytesOf(slot.memory);
  };
  size_t bytes = 0;
  for (const auto& [other, slot] : slots_) bytes += bytes_of(slot);
  while (bytes > limits_.bytes) {
    auto oldest = slots_.end();
    for (auto at = slots_.begin(); at != slots_.end(); ++at) {
      if (at->first == id || !at->second.graph) continue;
      if (oldest == slots_.end() || at->second.used < oldest->second.used) oldest = at;
    }
    if (oldest == slots_.end()) break;
    bytes -= bytes_of(oldest->second);
    Drop(oldest->second);
    slots_.erase(oldest);
    ++stats_.evicted;
  }
  Slot& slot = slots_.at(id);
  if (bytes_of(slot) > limits_.bytes) Refuse(slot, "its memory is more than graph_memory allows");
}

Status Graphs::MakeQueue() {
  if (queue_ != nullptr) return Status::Ok();
  const std::shared_ptr<const Device>& device = streams_->device();
  Result<DeviceStream> stream = DeviceStream::Create(device);
  if (!stream.ok()) return stream.TakeStatus();
  Result<DeviceBuffer> workspace = DeviceBuffer::Create(device, kWorkspaceBytes);
  if (!workspace.ok()) return workspace.TakeStatus();
  stream_ = std::move(stream).value();
  queue_ = std::make_unique<DeviceQueue>(device, stream_.get(), std::move(workspace).value());
  return Status::Ok();
}

Status Graphs::Start(int id, const ChoiceState& choices) {
  last_run = {this, id, false, false, true};
  if (!enabled() || id < 1) return Status::Ok();
  std::unique_lock lock(turn_);
  if (closed_) return Status::Ok();
  Slot& slot = SlotOf(id);
  slot.used = ++clock_;
  if (slot.refused.empty() && streams_->has_foreign()) {
    Refuse(slot, "another provider's kernels use the card in this session");
  }
  if (!slot.refused.empty()) return Status::Ok();
  if (slot.graph) {  // somebody captured it since ONNX Runtime asked; this run is made all the same
    return Status::Ok();
  }
  run_ = GraphRun{.session = streams_.get()};
  run_id_ = id;
  run_choices_ = choices;
  Status status = BeginRun(slot);
  if (!status.ok()) {  // the run goes on without
    Refuse(slot, std::string(status.message()));
    return Status::Ok();
  }
  SetCurrentGraphRun(&run_);
  static_cast<void>(lock.release());  // NOLINT(bugprone-unused-return-value): until End
  return Status::Ok();
}

Status Graphs::BeginRun(Slot& slot) {
  if (slot.runs < kOrdinaryRuns) return Status::Ok();
  TUNABLEOP_RETURN_IF_ERROR(MakeQueue());
  run_.memory = slot.memory;
  run_.queue = queue_.get();
  if (slot.runs < kRunsBeforeCapture) return streams_->device()->Synchronize(streams_->own());
  TUNABLEOP_RETURN_IF_ERROR(streams_->device()->BeginCapture(queue_->stream()));
  run_.recording = true;
  return Status::Ok();
}

Status Graphs::End(uint64_t kernels) {
  if (CurrentGraphRun(streams_.get()) == nullptr) {
    last_run.asked = false;
    return Status::Ok();
  }
  const std::unique_lock lock(turn_, std::adopt_lock);
  SetCurrentGraphRun(nullptr);
  Status status;
  Slot& slot = slots_.at(run_id_);
  const bool whole = !run_.failed && run_.kernels == kernels;
  if (run_.recording) {
    EndCapture(run_id_, slot, whole, status);
  } else {
    if (run_.queue != nullptr) status = streams_->device()->Synchronize(queue_->stream());
    if (whole && status.ok()) ++slot.runs;
    if (!whole && !run_.failed && ++slot.failures >= kMostFailures) {
      Refuse(slot, "not all of its kernels ran on the thread of the run");
    }
  }
  if (run_.copied && slot.refused.empty()) {
    last_run.undone = run_.recording;
    Refuse(slot,
           "a tensor was copied to or from the host in the run: bind inputs and outputs on "
           "the card");
  }
  // Where nothing came of a recording the results are missing: once more, whatever follows.
  last_run.again = slot.refused.empty() || last_run.undone;
  last_run.asked = false;
  return status;
}

void Graphs::EndCapture(int id, Slot& slot, bool whole, Status& status) {
  const std::shared_ptr<const Device>& device = streams_->device();
  Result<DeviceGraph> graph = DeviceGraph::EndCapture(device, queue_->stream());
  if (graph.ok() && whole && !run_.copied) {
    status = device->LaunchGraph(graph.value().get(), streams_->own());
    if (status.ok()) {
      slot.graph = std::move(graph).value();
      slot.choices = run_choices_;
      slot.failures = 0;
      ++stats_.captured;
      EvictOthers(id);
      return;
    }
  }
  last_run.undone = true;
  ++stats_.discarded;
  slot.runs = kOrdinaryRuns;
  if (run_.failed || ++slot.failures < kMostFailures) return;
  Refuse(slot, graph.ok() ? (status.ok() ? "not all of its kernels ran on the thread of the run"
                                         : std::string(status.message()))
                          : std::string(graph.status().message()));
  if (!device->lost()) status = Status::Ok();
}

bool Graphs::WantsGraph() const noexcept {
  if (!enabled()) return false;
  // Before any run of this session on this thread, it is asked whether there are graphs at all.
  return last_run.of != this || last_run.again;
}

bool Graphs::IsCaptured(int id, const ChoiceState& choices) noexcept {
  if (!enabled() || id < 1) return false;
  const bool after_run = last_run.of == this && !std::exchange(last_run.asked, true);
  if (after_run && last_run.undone) return false;
  const std::lock_guard lock(turn_);
  const auto found = slots_.find(id);
  if (found == slots_.end() || !found->second.graph) return false;
  Slot& slot = found->second;
  // What the run that ended just now captured holds at least for its own answer.
  if (after_run) return true;
  const bool changed = slot.choices.changes != choices.changes && choices.settled;
  if (!changed && slot.choices.denials == choices.denials) return true;
  static_cast<void>(streams_->device()->Synchronize(streams_->own()));
  slot.graph = DeviceGraph();
  slot.runs = kOrdinaryRuns;
  ++stats_.recaptured;
  return false;
}

Status Graphs::Replay(int id) {
  {
    const std::lock_guard lock(turn_);
    const auto found = slots_.find(id);
    if (found == slots_.end() || !found->second.graph) {
      return {StatusCode::kNotFound,
              "TunableOp: the graph with gpu_graph_id=" + std::to_string(id) +
                  " was released, or made room for others, a moment ago: run it again"};
    }
    found->second.used = ++clock_;
    ++stats_.replayed;
    TUNABLEOP_RETURN_IF_ERROR(
        streams_->device()->LaunchGraph(found->second.graph.get(), streams_->own()));
  }
  return streams_->device()->Synchronize(streams_->own());
}

void Graphs::Release(int id) noexcept {
  const std::lock_guard lock(turn_);
  const auto found = slots_.find(id);
  if (found == slots_.end()) return;
  Drop(found->second);
  slots_.erase(found);
}

Graphs::Stats Graphs::stats() const {
  const std::lock_guard lock(turn_);
  Stats stats = stats_;
  for (const auto& [id, slot] : slots_) {
    stats.alive += slot.graph ? 1 : 0;
    stats.bytes += memory_->BytesOf(slot.memory) + host_memory_->BytesOf(slot.memory);
  }
  return stats;
}

void Graphs::Close() noexcept {
  const std::lock_guard lock(turn_);
  if (closed_) return;
  closed_ = true;
  for (auto& [id, slot] : slots_) Drop(slot);
  slots_.clear();
  if (!dead()) return;
  if (queue_ != nullptr) queue_->Abandon();
  stream_.Abandon();
}

}  // namespace tunableop
