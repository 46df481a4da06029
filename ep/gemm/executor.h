// How a kernel gets at threads. The provider implements this on ONNX Runtime's own pool; a second
// pool beside it costs 1.7-3.0x (measured), so no kernel ever starts a thread.
#pragma once

#include <cstddef>

namespace tunableop {

class DeviceQueue;

class Executor {
 public:
  using Task = void (*)(void* context, size_t index);

  virtual ~Executor() = default;

  // Calls task(context, i) once for each i in [0, count), in any order, on up to threads() threads,
  // and returns when all are done. Tasks must not throw and must not call ParallelFor.
  virtual void ParallelFor(size_t count, Task task, void* context) noexcept = 0;

  // Threads that ParallelFor can use at once, the caller included; >= 1. Constant.
  virtual int threads() const noexcept = 0;

  // Where the kernels of a card are queued; null on a CPU.
  virtual const DeviceQueue* queue() const noexcept { return nullptr; }
};

// Runs everything on the calling thread.
class SerialExecutor final : public Executor {
 public:
  void ParallelFor(size_t count, Task task, void* context) noexcept override {
    for (size_t i = 0; i < count; ++i) task(context, i);
  }
  int threads() const noexcept override { return 1; }
};

}  // namespace tunableop
