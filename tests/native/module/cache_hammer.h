// A stress of SessionCache: readers that check what they find while writers replace, evict and
// erase.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tunableop::bindings {

struct HammerReport {
  uint64_t finds = 0;
  uint64_t hits = 0;
  uint64_t writes = 0;
  uint64_t wrong = 0;       // found entries of another problem, or already destroyed: must be 0
  int64_t live_peak = 0;    // entries that existed at once
  int64_t live_at_end = 0;  // after the cache was destroyed: must be 0
  uint64_t evicted = 0;
  size_t size = 0;  // before the cache was destroyed
};

// `threads` threads, one in four of which writes, for `seconds`, over `distinct` problems.
HammerReport HammerCache(int threads, double seconds, int64_t distinct, size_t capacity);

// Nanoseconds of a ReadGuard and a Find that hits, over `used` of `distinct` entries, on one
// thread.
double MeasureFind(int64_t distinct, int64_t used);

// Nanoseconds of a Put that evicts, where 4/5 of `capacity` entries are found again and again.
double MeasurePut(int64_t capacity);

}  // namespace tunableop::bindings
