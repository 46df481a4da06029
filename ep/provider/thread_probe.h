// How many threads a session's intra-op pool has. The plugin interface does not say.
#pragma once

#include "abi/ort_c_api.h"

namespace tunableop {

// Hands the pool one task for each core that this process may run on; each waits until all have
// come, and how many came is the answer: the pool's threads, or the cores if those are fewer.
// Returns at once when all come, and after kPatienceNs (thread_probe.cc) when the pool is smaller.
// Once per session.
int ProbePoolThreads(const OrtKernelContext* context);

}  // namespace tunableop
