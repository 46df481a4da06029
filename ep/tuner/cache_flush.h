// Puts memory out of the processor's caches, so that the next call finds it where a real run would.
#pragma once

#include <cstddef>

#include "gemm/executor.h"

namespace tunableop {

// True when this processor can: clflush or clflushopt on x86-64, dc civac on aarch64.
bool CanFlushCaches() noexcept;

// Writes back and evicts every cache line of [data, data + bytes) from all caches of the machine:
// the instructions act on the line wherever it is. Large ranges are spread over the executor. About
// 1 ms for 10 MB on a core. Nothing where it cannot be done (a walk over other memory would take
// longer, spoil other data too and still leave a part there).
void FlushFromCaches(const void* data, size_t bytes, Executor& executor) noexcept;

}  // namespace tunableop
