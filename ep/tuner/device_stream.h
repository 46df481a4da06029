// Where a card's kernels are measured: a stream of its own, with a workspace, memory, and waiting
// that always ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gemm/device.h"
#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "gemm/status.h"
#include "tuner/clock.h"

namespace tunableop {

// Used by the one thread that measures. When something on it does not end (hung()), or the card is
// lost, nothing of it is ever freed: it may still be used, and freeing would wait for it.
class MeasuringStream {
 public:
  // A workspace as large as that of `session`, or the largest half, quarter ... of it that there is
  // memory for. `now`: empty: the steady clock.
  static Result<std::unique_ptr<MeasuringStream>> Create(const DeviceQueue& session, NowFn now,
                                                         double hang_ms);
  // None of its own: measures on the session's stream, which outlives this, with the session's
  // workspace and handles.
  static Result<std::unique_ptr<MeasuringStream>> On(const DeviceQueue& session, NowFn now,
                                                     double hang_ms);
  ~MeasuringStream();
  MeasuringStream(const MeasuringStream&) = delete;
  MeasuringStream& operator=(const MeasuringStream&) = delete;

  const Device& device() const noexcept { return *device_; }
  NativeStream native() const noexcept { return at_->stream(); }
  size_t workspace_bytes() const noexcept { return at_->workspace_bytes(); }
  // For Plan::Run.
  Executor& executor() noexcept { return *executor_; }

  bool hung() const noexcept { return hung_; }
  bool broken() const noexcept { return hung_ || device_->lost(); }

  // Of the card's memory, beside the workspace.
  size_t allocated() const noexcept { return allocated_; }

  // Both kinds of memory live as long as this.
  Result<void*> Allocate(size_t bytes);
  Result<void*> AllocatePinned(size_t bytes);

  // Queued; from and to ordinary memory of the host, done.
  Status Copy(void* to, const void* from, size_t bytes, CopyKind kind) {
    return device_->Copy(to, from, bytes, kind, native());
  }
  Status Record(const DeviceEvent& event) { return device_->RecordEvent(event.get(), native()); }
  Result<DeviceEvent> NewEvent() const { return DeviceEvent::Create(device_); }

  // Waits for an event that was recorded, on any stream, or for all that was queued here.
  // kInternal: it did not end within hang_ms, or what went wrong in what was queued.
  Status Await(const DeviceEvent& event);
  Status Finish();

 private:
  MeasuringStream(std::shared_ptr<const Device> device, NowFn now, double hang_ms);
  Status MeasureAt(const DeviceQueue& queue);

  const std::shared_ptr<const Device> device_;
  const bool virtual_time_;
  const NowFn now_;
  const double hang_ms_;
  bool hung_ = false;
  size_t allocated_ = 0;
  DeviceStream stream_;  // its own; nothing: it has none
  DeviceEvent finished_;
  std::unique_ptr<DeviceQueue> queue_;  // the same
  const DeviceQueue* at_ = nullptr;     // where it measures; null: it was not made whole
  std::unique_ptr<QueueExecutor> executor_;
  std::vector<DeviceBuffer> memory_;
};

// Waits for what is queued on the session's stream, without a limit of its own but `most_ms`.
// kBusy: it did not end by then.
Status AwaitQueue(const DeviceQueue& session, const NowFn& now, double most_ms);

}  // namespace tunableop
