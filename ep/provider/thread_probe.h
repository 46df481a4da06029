// How many threads a session's intra-op pool has. The plugin interface does not say.
#pragma once

#include "abi/ort_c_api.h"

namespace tunableop {

// Hands the pool one task for each processor; each waits for the others for a moment, and the
// number of distinct threads seen is the answer. At most about 10 ms, once per session. >= 1.
int ProbePoolThreads(const OrtKernelContext* context) noexcept;

}  // namespace tunableop
