// The cards of this machine as ONNX Runtime sees them, and whose memory is where.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/ort_c_api.h"
#include "backends/gpu/devices.h"
#include "gemm/device.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "provider/gpu/warm_up.h"

namespace tunableop {

class KernelLibrary;
class MemoryPool;

// A card that some library has kernels for. Lives until the process ends, as what it made for ONNX
// Runtime does, which keeps pointers to it. Thread-safe.
class Card {
 public:
  static Result<std::unique_ptr<Card>> Create(const Gpu& gpu);
  ~Card();

  const Gpu& gpu() const noexcept { return gpu_; }
  const std::shared_ptr<const Device>& device() const noexcept { return gpu_.device; }
  std::string Name() const;  // "cuda:0"

  // The project's own kernels on this card. Made at the first call, which asks nothing of the card.
  KernelLibrary& kernels();

  // Of its own memory, and of page-locked memory of the host for it.
  const OrtMemoryInfo* memory() const noexcept { return memory_; }
  const OrtMemoryInfo* host_memory() const noexcept { return host_memory_; }
  // Whether `device` is this card's memory. Exactly: as it is in memory(), alignment included.
  bool Holds(const OrtMemoryDevice* device, bool exactly) const noexcept;
  bool HoldsHost(const OrtMemoryDevice* device) const noexcept;

  // For a card that ONNX Runtime does not list. Made at the first call.
  Result<const OrtHardwareDevice*> MakeHardwareDevice();

  // Whether some library has kernels for this type of elements. They are asked where that is not
  // known otherwise, until one has: that none has may be for want of memory. A library that is
  // known to have them is asked on another thread, to be quick when it is needed.
  bool Runs(DataType type);
  // Begins on another thread what any session needs of the card; who needs it waits for it.
  void StartWarmUp() noexcept;
  // Waits for what is being done of that; no more is begun.
  void EndWarmUp() noexcept { warm_up_.End(); }

  void Add(MemoryPool* pool);
  void Remove(MemoryPool* pool) noexcept;
  // Gives back what the pools of this card keep; returns how many bytes.
  size_t TrimAll() noexcept;
  // What the last pool that had no memory to give said; empty: none.
  std::string WhyNoMemory();
  struct Order {
    NativeStream stream = nullptr;
    bool alone = false;  // everything that will ever touch it is queued on the same stream
  };
  // As MemoryPool::OrderOf, over all pools. Memory of nobody here (a user's, another provider's):
  // waits for everything that our sessions have queued, and the order is the legacy stream's.
  Result<Order> OrderOf(const void* memory);

 private:
  explicit Card(const Gpu& gpu);
  Status SynchronizeAll();  // what our sessions have queued here
  void DoWarmUp(size_t step);
  bool AskLibraries(DataType type) const;

  const Gpu& gpu_;
  OrtMemoryInfo* memory_ = nullptr;
  OrtMemoryInfo* host_memory_ = nullptr;
  std::mutex mutex_;  // on making what is made late
  OrtHardwareDevice* hardware_device_ = nullptr;
  uint32_t types_ = 0;  // that have kernels: 1 << DataType
  std::once_flag kernels_made_;
  std::unique_ptr<KernelLibrary> kernels_;
  std::mutex pools_mutex_;
  std::vector<MemoryPool*> pools_;
  WarmUp warm_up_;
};

// Whether this ONNX Runtime has a GPU provider built in. It copies its memory itself, on the
// streams that its kernels run on, which we are not told; and in a session with both of us ONNX
// Runtime would take the first provider's allocator for both, were their memory the same to it.
// There our memory claims an alignment of 256 bytes, which makes it another, and still shared
// without copies between nodes. Alone it claims none: then it is what Python calls "cuda", and
// inputs and outputs that are bound there are used as they are.
bool HasStockGpu() noexcept;

// In the order of Gpus(). Made at the first call. Empty on a machine without cards.
Result<std::span<const std::unique_ptr<Card>>> Cards();

// Nullptr: none of them.
Card* FindCard(std::string_view backend, int ordinal) noexcept;

}  // namespace tunableop
