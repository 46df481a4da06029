// What the session's parts have to know of a run from which a graph is made, or is to be made.
#pragma once

#include <cstdint>

#include "gemm/device_queue.h"

namespace tunableop {

class StreamQueues;

// Belongs to the thread that the run is on, from its start to its end: ONNX Runtime calls kernels,
// allocators and copies of a run there, unless it was told to run nodes in parallel.
struct GraphRun {
  const StreamQueues* session = nullptr;
  uint32_t memory = 0;                 // whose memory it takes: see MemoryPool; 0: nobody's
  const DeviceQueue* queue = nullptr;  // where kernels go; null: where they always go
  bool recording = false;              // what is queued is recorded, and not done
  uint64_t kernels = 0;                // calls
  bool failed = false;                 // a kernel reported an error
  bool copied = false;  // ONNX Runtime copied a tensor to or from the host, which no graph repeats
};

// Null: this thread is in no such run, or in another session's.
GraphRun* CurrentGraphRun(const StreamQueues* session) noexcept;
// Of whichever session.
GraphRun* CurrentGraphRun() noexcept;
// Null: it has ended.
void SetCurrentGraphRun(GraphRun* run) noexcept;

}  // namespace tunableop
