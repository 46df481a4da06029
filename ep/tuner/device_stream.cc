#include "tuner/device_stream.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

namespace tunableop {
namespace {

// Polls until the event is done. `ended`: it is; else `most_ms` have passed.
Status Poll(const Device& device, NativeEvent event, const NowFn& now, double most_ms,
            bool virtual_time, bool& ended) {
  constexpr int64_t kSpinNs = 200'000;  // a few samples long: then it is no use to burn a core
  const int64_t begin = now();
  while (true) {
    TUNABLEOP_RETURN_IF_ERROR(device.QueryEvent(event, ended));
    if (ended) return Status::Ok();
    const int64_t waited = now() - begin;
    if (static_cast<double>(waited) > most_ms * 1e6) return Status::Ok();
    if (virtual_time) continue;
    if (waited < kSpinNs) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace

MeasuringStream::MeasuringStream(std::shared_ptr<const Device> device, NowFn now, double hang_ms)
    : device_(std::move(device)),
      virtual_time_(static_cast<bool>(now)),
      now_(virtual_time_ ? std::move(now) : NowFn(&SteadyNow)),
      hang_ms_(hang_ms) {}

Result<std::unique_ptr<MeasuringStream>> MeasuringStream::Create(const DeviceQueue& session,
                                                                 NowFn now, double hang_ms) {
  std::unique_ptr<MeasuringStream> self(
      new MeasuringStream(session.shared_device(), std::move(now), hang_ms));
  Result<DeviceStream> stream = DeviceStream::Create(self->device_);
  if (!stream.ok()) return stream.TakeStatus();
  self->stream_ = std::move(stream.value());
  DeviceBuffer workspace;
  for (size_t bytes = session.workspace_bytes(); bytes >= 4096; bytes /= 2) {
    Result<DeviceBuffer> memory = DeviceBuffer::Create(self->device_, bytes);
    if (memory.ok()) {
      workspace = std::move(memory.value());
      break;
    }
    if (memory.status().code() != StatusCode::kOutOfMemory) return memory.TakeStatus();
  }
  self->queue_ =
      std::make_unique<DeviceQueue>(self->device_, self->stream_.get(), std::move(workspace));
  TUNABLEOP_RETURN_IF_ERROR(self->MeasureAt(*self->queue_));
  return self;
}

Result<std::unique_ptr<MeasuringStream>> MeasuringStream::On(const DeviceQueue& session, NowFn now,
                                                             double hang_ms) {
  std::unique_ptr<MeasuringStream> self(
      new MeasuringStream(session.shared_device(), std::move(now), hang_ms));
  TUNABLEOP_RETURN_IF_ERROR(self->MeasureAt(session));
  return self;
}

Status MeasuringStream::MeasureAt(const DeviceQueue& queue) {
  Result<DeviceEvent> finished = NewEvent();
  if (!finished.ok()) return finished.TakeStatus();
  finished_ = std::move(finished.value());
  executor_ = std::make_unique<QueueExecutor>(queue);
  at_ = &queue;
  return Status::Ok();
}

MeasuringStream::~MeasuringStream() {
  if (at_ == nullptr) return;
  // What is still queued uses what is about to be freed. What went wrong in it concerns nobody now.
  if (!broken()) static_cast<void>(Finish());
  if (!broken()) return;
  if (hung_ && Record(finished_).ok()) device_->GiveUpOn(finished_.get());
  for (DeviceBuffer& buffer : memory_) buffer.Abandon();
  if (queue_ != nullptr) queue_->Abandon();
  finished_.Abandon();
  stream_.Abandon();
}

Result<void*> MeasuringStream::Allocate(size_t bytes) {
  Result<DeviceBuffer> buffer = DeviceBuffer::Create(device_, bytes);
  if (!buffer.ok()) return buffer.TakeStatus();
  memory_.push_back(std::move(buffer.value()));
  allocated_ += bytes;
  return memory_.back().data();
}

Result<void*> MeasuringStream::AllocatePinned(size_t bytes) {
  Result<DeviceBuffer> buffer = DeviceBuffer::CreatePinned(device_, bytes);
  if (!buffer.ok()) return buffer.TakeStatus();
  memory_.push_back(std::move(buffer.value()));
  return memory_.back().data();
}

Status MeasuringStream::Await(const DeviceEvent& event) {
  bool ended = false;
  TUNABLEOP_RETURN_IF_ERROR(Poll(*device_, event.get(), now_, hang_ms_, virtual_time_, ended));
  if (ended) return Status::Ok();
  hung_ = true;
  char text[96];
  std::snprintf(text, sizeof(text), "did not end within %.3g s: abandoned", hang_ms_ * 1e-3);
  return {StatusCode::kInternal, text};
}

Status MeasuringStream::Finish() {
  TUNABLEOP_RETURN_IF_ERROR(Record(finished_));
  return Await(finished_);
}

Status AwaitQueue(const DeviceQueue& session, const NowFn& now, double most_ms) {
  Result<DeviceEvent> event = DeviceEvent::Create(session.shared_device());
  if (!event.ok()) return event.TakeStatus();
  const Device& device = session.device();
  TUNABLEOP_RETURN_IF_ERROR(device.RecordEvent(event.value().get(), session.stream()));
  bool ended = false;
  TUNABLEOP_RETURN_IF_ERROR(Poll(device, event.value().get(), now ? now : NowFn(&SteadyNow),
                                 most_ms, static_cast<bool>(now), ended));
  if (ended) return Status::Ok();
  return {StatusCode::kBusy, "what was queued before did not end within " +
                                 std::to_string(static_cast<int64_t>(most_ms)) + " ms"};
}

}  // namespace tunableop
