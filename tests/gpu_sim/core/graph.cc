// Capturing the work of streams into a graph, and what a capture forbids.
#include <utility>

#include "core/faults.h"
#include "core/flavour.h"
#include "core/stream.h"
#include "core/stream_state.h"

namespace simgpu {
namespace {

constexpr int kGlobal = 0;
constexpr int kRelaxed = 2;

// How careful this thread is to be.
thread_local int thread_mode = kGlobal;

// Whether `capture` keeps this thread from calls that are not safe while it goes on.
bool Holds(const Capture& capture) {
  if (capture.mode == kRelaxed || thread_mode == kRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return capture.mode == kGlobal && thread_mode == kGlobal;
}

void Leave(Capture& capture) {
  if (capture.origin != nullptr) capture.origin->capture = nullptr;
  for (Stream* stream : capture.forked) stream->capture = nullptr;
}

}  // namespace

Err Forbid(StreamState& state, const Stream* stream) {
  if (stream != nullptr && stream->capture != nullptr) {
    stream->capture->invalid = true;
    return Err::kCaptureUnsupported;
  }
  // Waiting for another stream is no concern of a capture; anything card-wide is.
  if (stream != nullptr && !stream->null) return Err::kOk;
  for (const std::shared_ptr<Capture>& capture : state.captures) {
    if (!Holds(*capture)) continue;
    capture->invalid = true;
    return Err::kCaptureUnsupported;
  }
  return Err::kOk;
}

Err Implicit(StreamState& state, const Stream& stream) {
  if (!stream.null) return Err::kOk;
  for (const std::shared_ptr<Capture>& capture : state.captures) {
    if (!capture->origin->blocking || &capture->origin->card != &stream.card) continue;
    if (capture->mode == kRelaxed) continue;
    capture->invalid = true;
    return Err::kCaptureImplicit;
  }
  return Err::kOk;
}

void Abandon(StreamState& state, const std::shared_ptr<Capture>& capture) {
  capture->invalid = true;
  Leave(*capture);
  state.captures.erase(capture);
}

Err ForbiddenInCapture() {
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  // ROCm 6 let these pass.
  if (ThisFlavour().rocm == 6) return Err::kOk;
  return Forbid(state, nullptr);
}

Err IsCapturing(void* handle, int* status) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const std::shared_ptr<Stream> stream = Find(state, handle);
  if (stream == nullptr) return Err::kInvalidHandle;
  *status = 0;
  if (stream->capture != nullptr) *status = stream->capture->invalid ? 2 : 1;
  if (stream->null) return Implicit(state, *stream);
  return Err::kOk;
}

Err ExchangeCaptureMode(int* mode) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  if (mode == nullptr || *mode < kGlobal || *mode > kRelaxed) return Err::kInvalidValue;
  std::swap(*mode, thread_mode);
  return Err::kOk;
}

Err BeginCapture(void* handle, int mode) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const std::shared_ptr<Stream> stream = Find(state, handle);
  if (stream == nullptr) return Err::kInvalidHandle;
  if (mode < kGlobal || mode > kRelaxed) return Err::kInvalidValue;
  if (stream->null) return Err::kCaptureUnsupported;
  if (stream->capture != nullptr) return Err::kCaptureUnmatched;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream.get();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->graph = std::make_shared<Graph>(Graph{stream->card.ordinal, {}});
  stream->capture = capture;
  state.captures.insert(std::move(capture));
  Count("captures");
  return Err::kOk;
}

Err EndCapture(void* handle, void** graph) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  *graph = nullptr;
  const std::shared_ptr<Stream> stream = Find(state, handle);
  if (stream == nullptr) return Err::kInvalidHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr || capture->origin != stream.get()) return Err::kCaptureUnmatched;
  if (capture->mode != kRelaxed && capture->thread != std::this_thread::get_id()) {
    return Err::kCaptureWrongThread;
  }
  Leave(*capture);
  state.captures.erase(capture);
  if (capture->invalid || FaultOn("capture_spoilt")) return Err::kCaptureInvalidated;
  if (!capture->unjoined.empty()) return Err::kCaptureUnjoined;
  *graph = capture->graph.get();
  state.graphs.emplace(*graph, capture->graph);
  return Err::kOk;
}

Err Instantiate(void* graph, void** executable) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const auto found = state.graphs.find(graph);
  if (found == state.graphs.end()) return Err::kInvalidValue;
  if (FaultOn("no_instance")) return Err::kOutOfMemory;
  auto copy = std::make_shared<Graph>(*found->second);
  *executable = copy.get();
  state.executables.emplace(*executable, std::move(copy));
  Count("graphs");
  return Err::kOk;
}

Err LaunchGraph(void* executable, void* handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const auto found = state.executables.find(executable);
  const std::shared_ptr<Stream> stream = Find(state, handle);
  if (found == state.executables.end() || FaultOn("no_graph_launch")) return Err::kInvalidValue;
  if (stream == nullptr || stream->card.ordinal != found->second->ordinal) {
    return Err::kInvalidHandle;
  }
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return Err::kCaptureInvalidated;
    std::vector<Work>& into = stream->capture->graph->works;
    into.insert(into.end(), found->second->works.begin(), found->second->works.end());
    return Err::kOk;
  }
  if (const Err error = Implicit(state, *stream); error != Err::kOk) return error;
  for (const Work& work : found->second->works) {
    Operation operation;
    operation.work = work;
    Push(state, stream, std::move(operation));
  }
  Count("graph_launches");
  return Err::kOk;
}

Err DestroyGraph(void* graph) {
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  return state.graphs.erase(graph) == 0 ? Err::kInvalidValue : Err::kOk;
}

Err DestroyExecutable(void* executable) {
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  if (state.executables.erase(executable) == 0) return Err::kInvalidValue;
  Count("graphs_destroyed");
  return Err::kOk;
}

}  // namespace simgpu
