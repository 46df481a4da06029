// rocBLAS's handles: one to ask with, and those that a queue runs with.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "backends/blas/rocblas_library.h"
#include "gemm/device.h"
#include "gemm/device_queue.h"
#include "gemm/status.h"

namespace tunableop::blas {

// Owns a rocblas_handle; keeps its card and its library alive. Movable.
class RocblasHandle {
 public:
  RocblasHandle() noexcept = default;
  // On the legacy default stream, with memory that rocBLAS manages; alpha and beta on the host, no
  // atomics. Allocates memory of the card.
  static Result<RocblasHandle> Create(std::shared_ptr<const Device> device,
                                      std::shared_ptr<const RocblasLibrary> library);
  RocblasHandle(RocblasHandle&& other) noexcept { Swap(other); }
  RocblasHandle& operator=(RocblasHandle&& other) noexcept {
    RocblasHandle(std::move(other)).Swap(*this);
    return *this;
  }
  ~RocblasHandle();

  void* get() const noexcept { return handle_; }

 private:
  void Swap(RocblasHandle& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(library_, other.library_);
    std::swap(handle_, other.handle_);
  }

  std::shared_ptr<const Device> device_;
  std::shared_ptr<const RocblasLibrary> library_;
  void* handle_ = nullptr;
};

// The handles of one queue, all on its stream and in its workspace: what they queue runs one after
// the other, whichever it came from.
//
// A handle serves one thread at a time (a call changes its pointer mode and hands out its
// workspace). A second thread that comes while the first is in a call takes another handle, made
// the first time that this happens, so that none waits; only with more than kMost at once, or while
// a graph is captured (when none can be made), does one wait for the end of another's call.
// A handle is found with one atomic exchange. A handle for each thread would need as many as the
// pools of a process ever had threads.
class QueueHandles final : public QueueState {
 public:
  static constexpr size_t kMost = 4;
  static constexpr size_t kSlot = 1;  // of DeviceQueue's states

  // Those of `queue`, made at the first call. Null: no memory.
  static QueueHandles* Of(const DeviceQueue& queue,
                          const std::shared_ptr<const RocblasLibrary>& library) noexcept;

  explicit QueueHandles(std::shared_ptr<const RocblasLibrary> library)
      : library_(std::move(library)) {}

  // A handle for this thread alone, until it is destroyed.
  class Lease {
   public:
    Lease(void* handle, std::atomic<bool>& busy) noexcept : handle_(handle), busy_(&busy) {}
    Lease(Lease&& other) noexcept
        : handle_(other.handle_), busy_(std::exchange(other.busy_, nullptr)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (busy_ == nullptr) return;
      busy_->store(false, std::memory_order_release);
      busy_->notify_one();
    }
    void* handle() const noexcept { return handle_; }

   private:
    void* const handle_;
    std::atomic<bool>* busy_;
  };

  // kBusy: there is none yet, and none can be made while a graph is captured: run once before.
  Result<Lease> Take(const DeviceQueue& queue) noexcept;

 private:
  struct Entry {
    std::atomic<bool> busy{false};
    RocblasHandle handle;  // constant once made_ counts it
  };

  // One more, unless there are more than `seen` already.
  Status Make(const DeviceQueue& queue, size_t seen) noexcept;

  const std::shared_ptr<const RocblasLibrary> library_;
  std::mutex mutex_;  // held while a handle is made
  std::array<Entry, kMost> entries_;
  std::atomic<size_t> made_{0};
};

}  // namespace tunableop::blas
