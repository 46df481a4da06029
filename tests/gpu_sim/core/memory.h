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
#include <string>

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
  // A live allocation, and the gap on either side of it that is nobody's.
  struct Whole {
    char* address = nullptr;
    char* view = nullptr;  // null: there is none
    size_t bytes = 0;
    char* gaps[2] = {};
    size_t gap_bytes[2] = {};
    std::string Gaps() const;  // what is in them
  };
  Whole BlockOf(const void* address) const;
  // As View, for who does not touch it.
  bool Covers(const void* address, size_t bytes) const;
  // Sets every byte; false: not all of it lies in one live allocation. The bytes are written when
  // they are viewed: what only flushes a cache costs nothing.
  bool Fill(void* address, int value, size_t bytes);
  size_t capacity() const { return capacity_; }
  size_t used() const;

 private:
  struct Block {
    size_t bytes = 0;
    // A fill that is still to be written; 0 bytes: none.
    size_t fill_at = 0;
    size_t fill_bytes = 0;
    int fill_with = 0;
  };
  void Settle(Block& block) const;  // writes it
  // The live block that holds all of it; null: there is none. The lock is held.
  Block* Find(const void* address, size_t bytes) const;

  const size_t capacity_;
  const size_t range_;  // addresses: many times the capacity
  int file_ = -1;
  char* device_ = nullptr;
  char* view_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<size_t, Block> live_;  // by offset
  size_t used_ = 0;
  size_t next_ = 0;
};

// Page-locked memory of the host.
Err AllocatePinned(size_t bytes, void** address);
Err FreePinned(void* address);
bool IsPinned(const void* address, size_t bytes);

}  // namespace simgpu
