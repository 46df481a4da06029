// The processors that this process may run on, whichever of its threads asks.
#pragma once

#include <cstddef>
#include <vector>

namespace tunableop {

// Numbers of the logical processors that some thread of this process may run on, in ascending
// order, never empty. A single thread's mask would not do: servers pin the threads that take
// requests, and the size of a pool must not depend on which thread came first. Reads
// /proc/self/task; where that fails, every processor that is online.
std::vector<int> ProcessorsOfProcess();

// Bytes of the largest cache that a core has for itself, the second level; 1 MiB where the system
// does not say.
size_t CoreCacheBytes() noexcept;

}  // namespace tunableop
