// What a session has on its card: streams, memory, constants.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "abi/ort_c_api.h"
#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "provider/gpu/cards.h"
#include "provider/gpu/graphs.h"
#include "provider/gpu/memory_pool.h"
#include "provider/gpu/queues.h"

namespace tunableop {

// Thread-safe. Held by the session's provider and its kernels.
class GpuSession {
 public:
  static Result<std::shared_ptr<GpuSession>> Create(Card& card, Graphs::Limits limits);
  GpuSession(Card& card, std::shared_ptr<StreamQueues> streams, Graphs::Limits limits);
  ~GpuSession() { Close(); }
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;

  Card& card() const noexcept { return card_; }
  const Device& device() const noexcept { return *card_.device(); }
  const std::shared_ptr<MemoryPool>& memory() const noexcept { return memory_; }
  const std::shared_ptr<MemoryPool>& host_memory() const noexcept { return host_memory_; }
  const std::shared_ptr<StreamQueues>& streams() const noexcept { return streams_; }

  Graphs& graphs() noexcept { return *graphs_; }

  // Each kernel of the session says when it comes and when it goes, and of each call what became of
  // it: a graph is only made of runs in which every kernel was called.
  void AddKernel() noexcept { kernels_.fetch_add(1, std::memory_order_relaxed); }
  void RemoveKernel() noexcept { kernels_.fetch_sub(1, std::memory_order_relaxed); }
  uint64_t kernels() const noexcept { return kernels_.load(std::memory_order_relaxed); }
  void CountCall(bool ok) const noexcept;

  // Where the work of this kernel call belongs. Takes no lock but for the first call on a stream.
  Result<const DeviceQueue*> QueueOf(const OrtKernelContext* context) const;

  // At least `count` ones on the card, for as long as this lives. Takes no lock but to make more
  // than it ever made. Error: no memory, or `stream` is being captured and there are too few.
  Result<const void*> Ones(DataType type, int64_t count, NativeStream stream);

  // Waits for what was queued on our own stream, and reports what went wrong in it.
  Status Synchronize() const { return streams_->SynchronizeOwn(); }

  // The session ends: waits for our own stream and gives memory back; what tensors still hold goes
  // with them. A lost card is not waited for.
  void Close() noexcept;

 private:
  struct Constants {
    int64_t count;
    DeviceBuffer memory;
  };
  static constexpr size_t kTypes = 4;

  Card& card_;
  const std::shared_ptr<StreamQueues> streams_;
  const std::shared_ptr<MemoryPool> memory_;
  const std::shared_ptr<MemoryPool> host_memory_;
  const std::unique_ptr<Graphs> graphs_;
  const uint64_t forks_;
  std::atomic<uint64_t> kernels_{0};
  std::array<std::atomic<const Constants*>, kTypes> ones_{};
  std::mutex mutex_;  // on making constants
  std::vector<std::unique_ptr<Constants>> constants_;
};

}  // namespace tunableop
