// A stream with what the kernels that are queued on it need: a workspace of its own, and each
// library's handle. Sharing either between streams gives wrong answers (measured).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "gemm/device.h"
#include "gemm/device_memory.h"
#include "gemm/executor.h"
#include "gemm/status.h"

namespace tunableop {

// What a library keeps for one queue: a handle, mostly.
class QueueState {
 public:
  virtual ~QueueState() = default;
};

// Thread-safe. Kernels of several threads may be queued on one: they run one after the other.
class DeviceQueue {
 public:
  static constexpr size_t kLibraries = 4;  // that may keep a state here; each has its own slot

  // `stream` is the caller's and outlives this. `workspace` may be empty.
  DeviceQueue(std::shared_ptr<const Device> device, NativeStream stream, DeviceBuffer workspace)
      : device_(std::move(device)), stream_(stream), workspace_(std::move(workspace)) {}
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  const Device& device() const noexcept { return *device_; }
  const std::shared_ptr<const Device>& shared_device() const noexcept { return device_; }
  NativeStream stream() const noexcept { return stream_; }
  void* workspace() const noexcept { return workspace_.data(); }
  size_t workspace_bytes() const noexcept { return workspace_.bytes(); }

  // To be held around a library's call that uses the workspace. Such a call may queue several
  // kernels which hand on partial sums there (split-K), and between two of them no other thread's
  // may come: on one stream of an H200, with six threads, 52 of 900 answers were another's. On
  // every stream: one that ONNX Runtime gives to one run alone waits for nobody, and whether it
  // does so is not ours to know (a stock provider may be told to use one stream of the user's for
  // all runs).
  std::unique_lock<std::mutex> Turn() const { return std::unique_lock(turn_); }

  // Null: not made yet. Lock-free.
  QueueState* state(size_t library) const noexcept {
    return states_[library].load(std::memory_order_acquire);
  }
  // Keeps it unless another thread was faster; returns what is kept.
  QueueState* SetState(size_t library, std::unique_ptr<QueueState> state) const {
    const std::lock_guard lock(mutex_);
    if (owned_[library] == nullptr) {
      owned_[library] = std::move(state);
      states_[library].store(owned_[library].get(), std::memory_order_release);
    }
    return owned_[library].get();
  }

  // Nothing of it is freed: a kernel on it does not end.
  void Abandon() noexcept {
    workspace_.Abandon();
    for (std::unique_ptr<QueueState>& state : owned_) {
      static_cast<void>(state.release());  // NOLINT(bugprone-unused-return-value): it stays
    }
  }

 private:
  const std::shared_ptr<const Device> device_;
  const NativeStream stream_;
  DeviceBuffer workspace_;
  mutable std::mutex turn_;
  mutable std::mutex mutex_;
  mutable std::array<std::unique_ptr<QueueState>, kLibraries> owned_;
  mutable std::array<std::atomic<QueueState*>, kLibraries> states_{};
};

// How a card's kernels get at the queue: Plan::Run of a GPU library queues its work there and
// returns.
class QueueExecutor final : public Executor {
 public:
  // `queue` outlives this.
  explicit QueueExecutor(const DeviceQueue& queue) noexcept : queue_(queue) {}
  void ParallelFor(size_t count, Task task, void* context) noexcept override {
    for (size_t i = 0; i < count; ++i) task(context, i);
  }
  int threads() const noexcept override { return 1; }
  const DeviceQueue* queue() const noexcept override { return &queue_; }

 private:
  const DeviceQueue& queue_;
};

}  // namespace tunableop
