#include "provider/per_process.h"

#include <pthread.h>

namespace tunableop {
namespace {

std::atomic<uint64_t> g_forks{0};

void CountFork() { g_forks.fetch_add(1, std::memory_order_relaxed); }

// Before any thread of ours can be started: while the library is loaded.
const int g_registered = ::pthread_atfork(nullptr, nullptr, &CountFork);

}  // namespace

uint64_t Forks() noexcept {
  static_cast<void>(g_registered);
  return g_forks.load(std::memory_order_relaxed);
}

}  // namespace tunableop
