#include "core/stream.h"

#include <utility>

#include "core/faults.h"
#include "core/stream_state.h"

namespace simgpu {

StreamState& TheStreams() {
  static auto* const state = new StreamState;
  return *state;
}

namespace {

void RunQueue(const std::shared_ptr<Stream>& stream) {
  StreamState& state = TheStreams();
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.queued.wait(lock, [&] { return !stream->queue.empty() || stream->destroyed; });
    if (stream->queue.empty()) return;
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    for (const auto& [other, ticket] : operation.after) {
      state.done.wait(lock, [&, number = ticket] { return other->finished >= number; });
      stream->clock_ms = std::max(stream->clock_ms, other->clock_ms);
    }
    if (operation.waits != nullptr) {
      state.done.wait(lock, [&] { return operation.waits->done; });
      stream->clock_ms = std::max(stream->clock_ms, operation.waits->at_ms);
    }
    double cost = 0;
    if (operation.work && stream->card.lost.load() == Err::kOk) {
      lock.unlock();
      cost = operation.work(stream->card);
      operation.work = nullptr;
      lock.lock();
    }
    stream->clock_ms += cost;
    if (operation.records != nullptr) {
      operation.records->at_ms = stream->clock_ms;
      operation.records->done = true;
    }
    ++stream->finished;
    state.done.notify_all();
  }
}

void WaitFor(StreamState& state, std::unique_lock<std::mutex>& lock,
             const std::shared_ptr<Stream>& stream, uint64_t ticket) {
  state.done.wait(lock, [&] { return stream->finished >= ticket; });
}

// Every stream of the card with work left.
std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> Unfinished(StreamState& state,
                                                                     const Card& card,
                                                                     bool blocking_only) {
  std::vector<std::pair<std::shared_ptr<Stream>, uint64_t>> found;
  std::erase_if(state.all, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : state.all) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr || &stream->card != &card || (blocking_only && !stream->blocking))
      continue;
    if (stream->finished < stream->queued) found.emplace_back(stream, stream->queued);
  }
  return found;
}

}  // namespace

std::shared_ptr<Stream> Stream::MakeLegacy(Card& card) {
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  auto stream = std::make_shared<Stream>(card, true, true);
  state.all.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> Find(StreamState& state, void* handle) {
  if (handle == nullptr) return CurrentCard().legacy;
  const auto found = state.streams.find(handle);
  return found == state.streams.end() ? nullptr : found->second;
}

void Push(StreamState& state, const std::shared_ptr<Stream>& stream, Operation operation) {
  if (stream->null) {
    operation.after = Unfinished(state, stream->card, true);
    std::erase_if(operation.after, [&](const auto& other) { return other.first == stream; });
  } else if (stream->blocking) {
    const std::shared_ptr<Stream>& legacy = stream->card.legacy;
    if (legacy->finished < legacy->queued) operation.after.emplace_back(legacy, legacy->queued);
  }
  stream->queue.push_back(std::move(operation));
  ++stream->queued;
  if (!stream->started) {
    stream->started = true;
    std::thread(RunQueue, stream).detach();
  }
  state.queued.notify_all();
}

Err CreateStream(bool blocking, void** handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  auto stream = std::make_shared<Stream>(CurrentCard(), blocking, false);
  state.all.push_back(stream);
  *handle = stream.get();
  state.streams.emplace(*handle, std::move(stream));
  Count("streams");
  return Err::kOk;
}

Err DestroyStream(void* handle) {
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const auto found = state.streams.find(handle);
  if (found == state.streams.end()) return Err::kInvalidHandle;
  found->second->destroyed = true;
  // A copy: the stream's own goes away.
  const std::shared_ptr<Capture> capture = found->second->capture;
  if (capture != nullptr) Abandon(state, capture);
  state.streams.erase(found);
  state.queued.notify_all();
  Count("streams_destroyed");
  return Err::kOk;
}

Err FindStream(void* handle, std::shared_ptr<Stream>* stream) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  *stream = Find(state, handle);
  return *stream == nullptr ? Err::kInvalidHandle : Err::kOk;
}

Err Enqueue(const std::shared_ptr<Stream>& stream, Work work, bool host_waits) {
  StreamState& state = TheStreams();
  std::unique_lock lock(state.mutex);
  if (const Err lost = stream->card.lost.load(); lost != Err::kOk) return lost;
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return Err::kCaptureInvalidated;
    Count("captured");
    if (FaultOnFor("capture_refuses", CountedWithFaults("captured"))) {
      stream->capture->invalid = true;
      return Err::kCaptureUnsupported;
    }
    stream->capture->graph->works.push_back(std::move(work));
    if (stream->capture->origin != stream.get()) stream->capture->unjoined.insert(stream.get());
    return Err::kOk;
  }
  if (const Err error = Implicit(state, *stream); error != Err::kOk) return error;
  Operation operation;
  operation.work = std::move(work);
  Push(state, stream, std::move(operation));
  if (host_waits) {
    WaitFor(state, lock, stream, stream->queued);
    return stream->card.lost.load();
  }
  return Err::kOk;
}

Err SynchronizeStream(void* handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  Count("syncs");
  StreamState& state = TheStreams();
  std::unique_lock lock(state.mutex);
  const std::shared_ptr<Stream> stream = Find(state, handle);
  if (stream == nullptr) return Err::kInvalidHandle;
  if (const Err error = Forbid(state, stream.get()); error != Err::kOk) return error;
  if (stream->null) {
    for (const auto& [other, ticket] : Unfinished(state, stream->card, true)) {
      WaitFor(state, lock, other, ticket);
    }
  } else {
    WaitFor(state, lock, stream, stream->queued);
  }
  return stream->card.lost.load();
}

Err QueryStream(void* handle) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  StreamState& state = TheStreams();
  const std::lock_guard lock(state.mutex);
  const std::shared_ptr<Stream> stream = Find(state, handle);
  if (stream == nullptr) return Err::kInvalidHandle;
  if (const Err error = Forbid(state, stream.get()); error != Err::kOk) return error;
  const bool idle = stream->null ? Unfinished(state, stream->card, true).empty()
                                 : stream->finished == stream->queued;
  if (!idle) return Err::kNotReady;
  return stream->card.lost.load();
}

Err SynchronizeCard() {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  Count("device_syncs");
  StreamState& state = TheStreams();
  std::unique_lock lock(state.mutex);
  if (const Err error = Forbid(state, nullptr); error != Err::kOk) return error;
  Card& card = CurrentCard();
  for (const auto& [stream, ticket] : Unfinished(state, card, false)) {
    WaitFor(state, lock, stream, ticket);
  }
  return card.lost.load();
}

uint64_t Ticket(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(TheStreams().mutex);
  return stream->queued;
}

bool IsDone(const std::shared_ptr<Stream>& stream, uint64_t ticket) {
  const std::lock_guard lock(TheStreams().mutex);
  return stream->finished >= ticket;
}

}  // namespace simgpu
