// Epoch-based reclamation: frees what lock-free readers may still be looking at only once none of
// them can.
//
// Each reading thread owns a slot on a cache line of its own. Entering writes the current epoch
// there, leaving writes 0. What a writer has unlinked is retired under the epoch of that moment,
// which then advances; it is freed when every slot is idle or shows a later epoch.
//
// Why that is enough: (1) a slot that shows a later epoch belongs to a reader that read the epoch
// after the writer had advanced it, hence after the unlinking, which it therefore sees; (2) for a
// slot that looks idle although a reader is about to enter, the reader's store to the slot and its
// loads of the table, the writer's unlinking and its load of the slot are all sequentially
// consistent, so one of the two sees the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tunableop {

// Something that is freed later. Destroyed outside of all locks of this file.
class Retired {
 public:
  virtual ~Retired() = default;
};

namespace epoch {

// Marks the calling thread as reading, until the matching Leave. Nests. A few nanoseconds; the
// first call of a thread claims a slot (which may allocate, once for every 64 threads that live at
// the same time).
void Enter() noexcept;
void Leave() noexcept;

// Hands over what no new reader can reach any more: the caller has unlinked it with sequentially
// consistent stores. Then frees everything that has become free. Thread-safe. Call it with no lock
// held that a destructor of a Retired may want. Out of memory, it leaks rather than frees too
// early.
void Retire(std::vector<std::unique_ptr<Retired>> unlinked) noexcept;

// Frees what has become free. Thread-safe.
void Collect() noexcept;

// Retired and not freed yet, in the whole process. For tests.
size_t Pending();

}  // namespace epoch
}  // namespace tunableop
