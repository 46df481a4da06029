#include "provider/processors.h"

#include <dirent.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

namespace tunableop {
namespace {

// Adds the mask of one thread. Grows the mask until the kernel accepts it: a machine may have more
// than CPU_SETSIZE processors. A thread that has ended meanwhile adds nothing.
void AddMask(pid_t thread, std::set<int>& processors) {
  for (int size = CPU_SETSIZE; size <= (1 << 20); size *= 2) {
    cpu_set_t* mask = CPU_ALLOC(size);
    if (mask == nullptr) return;
    const size_t bytes = CPU_ALLOC_SIZE(size);
    CPU_ZERO_S(bytes, mask);
    const bool known = sched_getaffinity(thread, bytes, mask) == 0;
    const bool too_small = !known && errno == EINVAL;
    for (int i = 0; known && i < size; ++i) {
      if (CPU_ISSET_S(static_cast<size_t>(i), bytes, mask)) processors.insert(i);
    }
    CPU_FREE(mask);
    if (!too_small) return;
  }
}

}  // namespace

std::vector<int> ProcessorsOfProcess() {
  std::set<int> processors;
  if (DIR* tasks = ::opendir("/proc/self/task"); tasks != nullptr) {
    while (const dirent* task = ::readdir(tasks)) {
      const long thread = std::strtol(task->d_name, nullptr, 10);  // 0: "." and ".."
      if (thread > 0) AddMask(static_cast<pid_t>(thread), processors);
    }
    ::closedir(tasks);
  }
  if (processors.empty()) {
    const long online = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
    for (int i = 0; i < online; ++i) processors.insert(i);
  }
  return {processors.begin(), processors.end()};
}

size_t CoreCacheBytes() noexcept {
  static const size_t bytes = [] {
#if defined(_SC_LEVEL2_CACHE_SIZE)
    if (const long found = ::sysconf(_SC_LEVEL2_CACHE_SIZE); found > 0) {
      return static_cast<size_t>(found);
    }
#endif
    return size_t{1} << 20U;
  }();
  return bytes;
}

}  // namespace tunableop
