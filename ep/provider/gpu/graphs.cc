#include "provider/gpu/graphs.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "provider/per_process.h"

namespace tunableop {
namespace {

// As StreamQueues gives to its first streams.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr int kOrdinaryRuns = 1;
constexpr int kRunsBeforeCapture = 2;
// Of a replay's copies to and from the host.
constexpr size_t kMostStaged = size_t{1} << 20;
// Each costs two runs, and ONNX Runtime gives up after eight within one call.
constexpr int kMostFailures = 2;

thread_local GraphRun* current_run = nullptr;

// The run that this thread is in, or the last one it was in.
struct ThreadRun {
  uint64_t of = 0;  // Graphs::name_
  int id = 0;
  GraphRun run;
  ChoiceState choices;
  bool has_turn = false;
  // When it has ended:
  bool again = true;    // ONNX Runtime should run it again, if there is no graph
  bool undone = false;  // it was recorded, and nothing came of it: its results are missing
  bool asked = true;    // ONNX Runtime has asked since
};
thread_local ThreadRun thread_run;

std::atomic<uint64_t> last_name{0};

constexpr const char* kNotWhole =
    "not all kernels were called on the thread of the run (execution_mode=ORT_PARALLEL?)";
constexpr const char* kCannot = "a kernel failed whenever it was recorded";
constexpr const char* kCopied =
    "a tensor was copied to or from the host during the run, which a graph would not repeat: bind "
    "inputs and outputs on the card";

}  // namespace

GraphRun* CurrentGraphRun() noexcept { return current_run; }

GraphRun* CurrentGraphRun(const StreamQueues* session) noexcept {
  return current_run != nullptr && current_run->session == session ? current_run : nullptr;
}

void SetCurrentGraphRun(GraphRun* run) noexcept { current_run = run; }

Graphs::Graphs(Limits limits, std::shared_ptr<StreamQueues> streams,
               std::shared_ptr<MemoryPool> memory, std::shared_ptr<MemoryPool> host_memory)
    : name_(++last_name),
      limits_(limits),
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

size_t Graphs::BytesOf(const Slot& slot) const noexcept {
  return memory_->BytesOf(slot.memory) + host_memory_->BytesOf(slot.memory);
}

void Graphs::EvictOthers(int id) {
  size_t bytes = 0;
  for (const auto& [other, slot] : slots_) bytes += BytesOf(slot);
  while (bytes > limits_.bytes) {
    auto oldest = slots_.end();
    for (auto at = slots_.begin(); at != slots_.end(); ++at) {
      if (at->first == id || BytesOf(at->second) == 0) continue;
      if (oldest == slots_.end() || at->second.used < oldest->second.used) oldest = at;
    }
    if (oldest == slots_.end()) break;
    bytes -= BytesOf(oldest->second);
    if (oldest->second.graph) ++stats_.evicted;
    Drop(oldest->second);
    slots_.erase(oldest);
  }
  Slot& slot = slots_.at(id);
  if (BytesOf(slot) > limits_.bytes) Refuse(slot, "its memory is more than graph_memory allows");
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
  ThreadRun& mine = thread_run;
  mine = ThreadRun();
  mine.of = name_;
  mine.id = id;
  mine.choices = choices;
  mine.again = false;
  if (!enabled() || id < 1) return Status::Ok();
  std::unique_lock lock(turn_);
  if (closed_) return Status::Ok();
  Slot& slot = SlotOf(id);
  slot.used = ++clock_;
  if (slot.refused.empty() && streams_->has_foreign()) {
    Refuse(slot, "another provider's kernels use the card in this session");
  }
  // Somebody may have captured it since ONNX Runtime asked: this run is made all the same.
  if (!slot.refused.empty() || slot.graph) return Status::Ok();
  mine.run.session = streams_.get();
  if (const Status status = BeginRun(slot, mine.run); !status.ok()) {
    if (streams_->device()->lost()) return {status.code(), std::string(status.message())};
    Refuse(slot, std::string(status.message()));  // the run goes on without
    return Status::Ok();
  }
  SetCurrentGraphRun(&mine.run);
  mine.has_turn = mine.run.queue != nullptr;
  // Until End.
  if (mine.has_turn) static_cast<void>(lock.release());  // NOLINT(bugprone-unused-return-value)
  return Status::Ok();
}

Status Graphs::BeginRun(Slot& slot, GraphRun& run) {
  if (slot.runs < kOrdinaryRuns) return Status::Ok();
  TUNABLEOP_RETURN_IF_ERROR(MakeQueue());
  if (slot.runs < kRunsBeforeCapture) {
    // It reads what was queued there.
    TUNABLEOP_RETURN_IF_ERROR(streams_->device()->Synchronize(streams_->own()));
  } else {
    TUNABLEOP_RETURN_IF_ERROR(streams_->device()->BeginCapture(queue_->stream()));
    run.recording = true;
  }
  run.memory = slot.memory;
  run.queue = queue_.get();
  return Status::Ok();
}

Status Graphs::End(uint64_t kernels) {
  ThreadRun& mine = thread_run;
  mine.asked = false;
  if (CurrentGraphRun(streams_.get()) == nullptr) return Status::Ok();
  const auto lock =
      mine.has_turn ? std::unique_lock(turn_, std::adopt_lock) : std::unique_lock(turn_);
  SetCurrentGraphRun(nullptr);
  const auto found = slots_.find(mine.id);
  if (found == slots_.end()) return Status::Ok();  // it made room for others
  Slot& slot = found->second;
  const bool whole = !mine.run.failed && mine.run.kernels == kernels;
  Status status = mine.run.recording ? EndCapture(slot, whole) : EndRun(slot, whole);
  if (mine.run.copied && slot.refused.empty()) Refuse(slot, kCopied);
  // Where nothing came of a recording the results are missing: once more, whatever follows.
  mine.again = slot.refused.empty() || mine.undone;
  return status;
}

Status Graphs::EndRun(Slot& slot, bool whole) {
  const ThreadRun& mine = thread_run;
  if (mine.run.queue != nullptr) {
    TUNABLEOP_RETURN_IF_ERROR(streams_->device()->Synchronize(queue_->stream()));
  }
  if (whole) {
    slot.runs = mine.run.queue != nullptr ? kRunsBeforeCapture : std::max(slot.runs, kOrdinaryRuns);
  } else if (!mine.run.failed) {
    Fail(slot, kNotWhole);
  }
  return Status::Ok();
}

Status Graphs::EndCapture(Slot& slot, bool whole) {
  ThreadRun& mine = thread_run;
  const std::shared_ptr<const Device>& device = streams_->device();
  Result<DeviceGraph> graph = DeviceGraph::EndCapture(device, queue_->stream());
  Status status = graph.ok() ? Status::Ok() : graph.TakeStatus();
  if (status.ok() && whole && !mine.run.copied) {
    status = device->LaunchGraph(graph.value().get(), streams_->own());
    if (status.ok()) {
      slot.graph = std::move(graph).value();
      slot.choices = mine.choices;
      slot.failures = 0;
      ++stats_.captured;
      EvictOthers(mine.id);
      return status;
    }
  }
  mine.undone = true;
  ++stats_.discarded;
  slot.runs = kOrdinaryRuns;
  if (device->lost()) return status;
  if (mine.run.failed) {
    Fail(slot, kCannot);  // ONNX Runtime tells the caller how
  } else {
    Fail(slot, status.ok() ? kNotWhole : std::string(status.message()));
  }
  return Status::Ok();
}

void Graphs::Fail(Slot& slot, std::string why) {
  if (++slot.failures >= kMostFailures) Refuse(slot, std::move(why));
}

bool Graphs::WantsGraph() const noexcept {
  if (!enabled()) return false;
  // Before any run of this session on this thread, it is asked whether there are graphs at all.
  return thread_run.of != name_ || thread_run.again;
}

Graphs::Slot* Graphs::Captured(int id) noexcept {
  const auto found = slots_.find(id);
  return found == slots_.end() || !found->second.graph ? nullptr : &found->second;
}

bool Graphs::IsOld(const Slot& slot, const ChoiceState& choices) noexcept {
  return slot.choices.denials != choices.denials ||
         (slot.choices.changes != choices.changes && choices.settled);
}

bool Graphs::IsCaptured(int id, const ChoiceState& choices) noexcept {
  if (!enabled() || id < 1) return false;
  ThreadRun& mine = thread_run;
  const bool after_run = mine.of == name_ && mine.id == id && !std::exchange(mine.asked, true);
  if (after_run && mine.undone) return false;
  const std::lock_guard lock(turn_);
  Slot* slot = Captured(id);
  if (slot == nullptr) return false;
  // What the run that ended just now captured holds at least for its own answer.
  if (after_run || !IsOld(*slot, choices)) return true;
  static_cast<void>(streams_->device()->Synchronize(streams_->own()));
  slot->graph = DeviceGraph();
  slot->runs = kOrdinaryRuns;
  ++stats_.recaptured;
  return false;
}

Status Graphs::Launch(int id, const ChoiceState* choices, std::span<const Transfer> in) {
  const Device& device = *streams_->device();
  const std::lock_guard lock(turn_);
  Slot* slot = Captured(id);
  if (slot == nullptr || (choices != nullptr && IsOld(*slot, *choices))) {
    return {StatusCode::kNotFound,
            "TunableOp: the graph with gpu_graph_id=" + std::to_string(id) +
                " was released, or made room for others, a moment ago: run it again"};
  }
  for (const Transfer& one : in) {
    TUNABLEOP_RETURN_IF_ERROR(
        device.Copy(one.card, one.host, one.bytes, CopyKind::kHostToDevice, streams_->own()));
  }
  slot->used = ++clock_;
  ++stats_.replayed;
  return device.LaunchGraph(slot->graph.get(), streams_->own());
}

Status Graphs::Replay(int id) {
  TUNABLEOP_RETURN_IF_ERROR(Launch(id, nullptr, {}));
  return streams_->device()->Synchronize(streams_->own());
}

Status Graphs::Replay(int id, const ChoiceState& choices, std::span<const Transfer> in,
                      std::span<const Transfer> out) {
  const Device& device = *streams_->device();
  // Small ones through page-locked memory, where a copy does not wait for the card.
  size_t bytes = 0;
  for (const Transfer& one : in) bytes += one.bytes;
  for (const Transfer& one : out) bytes += one.bytes;
  const auto free = [this](void* memory) { host_memory_->Free(memory); };
  const std::unique_ptr<void, decltype(free)> staged(
      bytes <= kMostStaged ? host_memory_->Allocate(bytes) : nullptr, free);
  std::vector<Transfer> ins(in.begin(), in.end());
  std::vector<Transfer> outs(out.begin(), out.end());
  if (staged != nullptr) {
    auto* at = static_cast<std::byte*>(staged.get());
    for (Transfer& one : ins) {
      std::memcpy(at, one.host, one.bytes);
      one.host = std::exchange(at, at + one.bytes);
    }
    for (Transfer& one : outs) one.host = std::exchange(at, at + one.bytes);
  }
  Status status = Launch(id, &choices, ins);
  for (const Transfer& one : outs) {
    if (!status.ok()) break;
    status = device.Copy(one.host, one.card, one.bytes, CopyKind::kDeviceToHost, streams_->own());
  }
  // Whatever happened: what was queued uses that memory.
  Status done = device.Synchronize(streams_->own());
  TUNABLEOP_RETURN_IF_ERROR(std::move(status));
  TUNABLEOP_RETURN_IF_ERROR(std::move(done));
  if (staged != nullptr) {
    for (size_t i = 0; i < outs.size(); ++i) std::memcpy(out[i].host, outs[i].host, out[i].bytes);
  }
  return Status::Ok();
}

Graphs::View Graphs::Look(int id) const {
  const std::lock_guard lock(turn_);
  const auto found = slots_.find(id);
  if (found == slots_.end()) return {};
  const Slot& slot = found->second;
  return {static_cast<bool>(slot.graph), BytesOf(slot), slot.refused};
}

void Graphs::Release(int id, bool for_room) noexcept {
  const std::lock_guard lock(turn_);
  const auto found = slots_.find(id);
  if (found == slots_.end()) return;
  if (for_room && found->second.graph) ++stats_.evicted;
  Drop(found->second);
  slots_.erase(found);
}

Graphs::Stats Graphs::stats() const {
  const std::lock_guard lock(turn_);
  Stats stats = stats_;
  for (const auto& [id, slot] : slots_) {
    stats.alive += slot.graph ? 1 : 0;
    stats.bytes += BytesOf(slot);
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
