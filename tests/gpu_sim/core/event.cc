// Events: marks in a stream, on the stream's simulated clock.
#include <utility>

#include "core/faults.h"
#include "core/stream.h"
#include "core/stream_state.h"

namespace simgpu {

std::shared_ptr<Event> FindEvent(StreamState& state, void* handle) {
  const auto found = state.events.find(handle);
  return found == state.events.end() ? nullptr : found->second;
}

Err CreateEvent(bool timing, void** handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  auto event = std::make_shared<Event>(Event{CurrentCard(), timing, nullptr, nullptr});
  *handle = event.get();
  state.events.emplace(*handle, std::move(event));
  Count("events");
  return Err::kOk;
}

Err DestroyEvent(void* handle) {
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  if (state.events.erase(handle) == 0) return Err::kInvalidHandle;
  Count("events_destroyed");
  return Err::kOk;
}

Err RecordEvent(void* handle, void* stream_handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const std::shared_ptr<Event> event = FindEvent(state, handle);
  const std::shared_ptr<Stream> stream = Find(state, stream_handle);
  if (event == nullptr || stream == nullptr || &event->card != &stream->card) {
    return Err::kInvalidHandle;
  }
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return Err::kCaptureInvalidated;
    event->capture = stream->capture;
    if (stream->capture->origin != stream.get()) stream->capture->unjoined.erase(stream.get());
    return Err::kOk;
  }
  if (const Err error = Implicit(state, *stream); error != Err::kOk) return error;
  event->capture = nullptr;
  event->mark = std::make_shared<Mark>();
  Operation operation;
  operation.records = event->mark;
  Push(state, stream, std::move(operation));
  return Err::kOk;
}

Err WaitEvent(void* stream_handle, void* handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const std::shared_ptr<Event> event = FindEvent(state, handle);
  const std::shared_ptr<Stream> stream = Find(state, stream_handle);
  if (event == nullptr || stream == nullptr) return Err::kInvalidHandle;
  if (event->capture != nullptr) {
    if (event->capture->invalid) return Err::kCaptureInvalidated;
    if (stream->capture != nullptr && stream->capture != event->capture) return Err::kCaptureMerge;
    if (stream->null) return Err::kCaptureImplicit;
    if (stream->capture == nullptr) {
      stream->capture = event->capture;
      event->capture->forked.insert(stream.get());
    }
    return Err::kOk;
  }
  if (stream->capture != nullptr) {
    // An event of work outside of the graph.
    stream->capture->invalid = true;
    return Err::kCaptureIsolation;
  }
  if (event->mark == nullptr || event->mark->done) return Err::kOk;
  Operation operation;
  operation.waits = event->mark;
  Push(state, stream, std::move(operation));
  return Err::kOk;
}

Err QueryEvent(void* handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const std::shared_ptr<Event> event = FindEvent(state, handle);
  if (event == nullptr) return Err::kInvalidHandle;
  if (event->capture != nullptr) return Err::kCapturedEvent;
  if (const Err error = Forbid(state, nullptr); error != Err::kOk) return error;
  if (event->mark != nullptr && !event->mark->done) return Err::kNotReady;
  return event->card.lost.load();
}

Err SynchronizeEvent(void* handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  Count("syncs");
  StreamState& state = TheStreams();
  std::unique_lock lock(state.mutex);
  const std::shared_ptr<Event> event = FindEvent(state, handle);
  if (event == nullptr) return Err::kInvalidHandle;
  if (event->capture != nullptr) return Err::kCapturedEvent;
  if (const Err error = Forbid(state, nullptr); error != Err::kOk) return error;
  if (const std::shared_ptr<Mark> mark = event->mark) {
    state.done.wait(lock, [&] { return mark->done; });
  }
  return event->card.lost.load();
}

Err ElapsedMs(void* begin, void* end, float* ms) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const std::shared_ptr<Event> first = FindEvent(state, begin);
  const std::shared_ptr<Event> last = FindEvent(state, end);
  if (first == nullptr || last == nullptr || &first->card != &last->card)
    return Err::kInvalidHandle;
  if (!first->timing || !last->timing || first->mark == nullptr || last->mark == nullptr) {
    return Err::kInvalidHandle;
  }
  if (!first->mark->done || !last->mark->done) return Err::kNotReady;
  *ms = static_cast<float>(last->mark->at_ms - first->mark->at_ms);
  return first->card.lost.load();
}

}  // namespace simgpu
