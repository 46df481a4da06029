// Threads for measuring outside of a run, where there is no pool of ONNX Runtime's to borrow. They
// live during one measurement, and sleep when it pauses, so that they never compete with a run for
// longer than the call under way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "gemm/executor.h"

namespace tunableop {

// `threads` - 1 threads beside the caller's. One ParallelFor at a time. Throws std::system_error
// when the system refuses a thread.
class MeasurePool final : public Executor {
 public:
  explicit MeasurePool(int threads);
  ~MeasurePool() override;
  MeasurePool(const MeasurePool&) = delete;
  MeasurePool& operator=(const MeasurePool&) = delete;

  void ParallelFor(size_t count, Task task, void* context) noexcept override;
  int threads() const noexcept override { return static_cast<int>(workers_.size()) + 1; }

 private:
  void Drain() noexcept;
  void Work() noexcept;
  void Stop() noexcept;

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::atomic<uint64_t> generation_{0};
  std::atomic<size_t> next_{0};
  std::atomic<size_t> busy_{0};
  size_t count_ = 0;
  Task task_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace tunableop
