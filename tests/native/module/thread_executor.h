// Threads for tests and benchmarks of single kernels, where there is no ONNX Runtime whose pool
// could be used. Never part of the provider.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "gemm/executor.h"

namespace tunableop::bindings {

// `threads` - 1 threads that spin for a moment after each job, as ONNX Runtime's do, and then
// sleep. One ParallelFor at a time.
class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(int threads) {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { Work(); });
    }
  }
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;
  ~ThreadExecutor() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      generation_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void ParallelFor(size_t count, Task task, void* context) noexcept override {
    if (workers_.empty()) {
      for (size_t i = 0; i < count; ++i) task(context, i);
      return;
    }
    task_ = task;
    context_ = context;
    count_ = count;
    next_.store(0);
    busy_.store(workers_.size());
    {
      const std::lock_guard lock(mutex_);
      generation_.fetch_add(1);
    }
    wake_.notify_all();
    Drain();
    while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }
  int threads() const noexcept override { return static_cast<int>(workers_.size()) + 1; }

 private:
  void Drain() noexcept {
    for (size_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) task_(context_, i);
  }

  void Work() noexcept {
    constexpr int kSpins = 20000;
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == seen; ++i) {
      }
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load() != seen; });
        seen = generation_.load();
        if (stop_) return;
      }
      Drain();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

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

}  // namespace tunableop::bindings
