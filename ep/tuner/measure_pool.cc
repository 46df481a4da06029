#include "tuner/measure_pool.h"

#include "tuner/clock.h"

namespace tunableop {
namespace {

// Longer than the gap between two calls of a race, and far shorter than ONNX Runtime's own threads
// spin.
constexpr int64_t kSpinNs = 100'000;
constexpr int kSpinsBeforeYield = 1000;

inline void Relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

MeasurePool::MeasurePool(int threads) {
  try {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { Work(); });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

MeasurePool::~MeasurePool() { Stop(); }

void MeasurePool::Stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void MeasurePool::ParallelFor(size_t count, Task task, void* context) noexcept {
  if (workers_.empty() || count < 2) {
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
  // Beyond a moment, a thread that is late may be waiting for this very core.
  for (int spins = 0; busy_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpinsBeforeYield) {
      Relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void MeasurePool::Drain() noexcept {
  for (size_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) task_(context_, i);
}

void MeasurePool::Work() noexcept {
  uint64_t seen = 0;
  for (;;) {
    const int64_t begin = SteadyNow();
    while (generation_.load(std::memory_order_acquire) == seen && SteadyNow() - begin < kSpinNs) {
      Relax();
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

}  // namespace tunableop
