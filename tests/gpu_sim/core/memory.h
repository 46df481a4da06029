// Memory of one simulated card, and what the host may use as page-locked memory.
//
// An address of the card lies in a range without any access rights, so that the host faults when
// it touches one. The same bytes are mapped a second time, readable and writable, at an address
// that only the simulation knows. Every allocation starts as 0xFF bytes (NaN in every float type),
// up to 4 MiB; larger ones as zeros, which costs nothing. Freed addresses are not handed out again
// soon. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "core/error.h"

namespace simgpu {

class Arena {
 public:
  explicit Arena(size_t capacity);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Err Allocate(size_t bytes, void** address);
  Err Free(void* address);
  bool Contains(const void* address) const;  // lies in the range, allocated or not
  // The host's view of [address, address + bytes) when all of it lies in one live allocation;
  // null otherwise.
  char* View(const void* address, size_t bytes) const;
  size_t capacity() const { return capacity_; }
  size_t used() const;

 private:
  const size_t capacity_;
  const size_t range_;  // addresses: many times the capacity
  int file_ = -1;
  char* device_ = nullptr;
  char* view_ = nullptr;
  mutable std::mutex mutex_;
  std::map<size_t, size_t> live_;  // offset, bytes
  size_t used_ = 0;
  size_t next_ = 0;
};

// Page-locked memory of the host.
Err AllocatePinned(size_t bytes, void** address);
Err FreePinned(void* address);
bool IsPinned(const void* address, size_t bytes);

}  // namespace simgpu
