#include "provider/heap_trim.h"

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tunableop {
namespace {

// A trim walks the whole heap (about a millisecond for a few hundred megabytes): not for every
// weight.
constexpr size_t kWorthwhile = size_t{16} << 20U;

}  // namespace

void HeapTrim::Trim() noexcept {
  if (pending_.load(std::memory_order_relaxed) >= kWorthwhile) TrimAll();
}

void HeapTrim::TrimAll() noexcept {
  if (pending_.exchange(0, std::memory_order_relaxed) == 0) return;
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace tunableop
