#include "provider/pool.h"

#include "provider/happens_before.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

using Task = void (*)(void*, size_t);

OrtStatus* Ask(const OrtKernelContext* kernel, Task task, size_t count, void* context) noexcept {
  constexpr size_t kBatches = 0;  // one task at a time
  return Ort().api->KernelContext_ParallelFor(kernel, task, count, kBatches, context);
}

}  // namespace

#if defined(__SANITIZE_THREAD__)
OrtStatus* RunOnPool(const OrtKernelContext* kernel, Task task, size_t count,
                     void* context) noexcept {
  struct Ordered {
    Task task;
    void* context;
    char begun;
    char done;
  };
  Ordered ordered{task, context, 0, 0};
  HappensBefore(&ordered.begun);
  OrtStatus* status = Ask(
      kernel,
      [](void* shared, size_t index) {
        auto* self = static_cast<Ordered*>(shared);
        HappensAfter(&self->begun);
        self->task(self->context, index);
        HappensBefore(&self->done);
      },
      count, &ordered);
  HappensAfter(&ordered.done);
  return status;
}
#else
OrtStatus* RunOnPool(const OrtKernelContext* kernel, Task task, size_t count,
                     void* context) noexcept {
  return Ask(kernel, task, count, context);
}
#endif

}  // namespace tunableop
