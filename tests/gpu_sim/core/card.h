// The simulated cards, which one is current on a thread, and when a card is beyond recovery.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/memory.h"

namespace simgpu {

class Stream;

// Which operands are still in the card's cache, by the bytes touched since.
class CacheModel {
 public:
  explicit CacheModel(size_t bytes) : bytes_(bytes) {}
  // Whether what starts at `address` was touched a cache's size ago or more recently; then touches
  // it.
  bool Touch(const void* address, size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  const size_t bytes_;
  std::mutex mutex_;
  std::map<const void*, uint64_t> touched_;
  uint64_t total_ = 0;
};

struct Card {
  Card(int number, size_t memory, size_t cache);

  const int ordinal;
  std::string name;
  std::string arch;
  std::string pci_bus_id;
  int compute_units;
  Arena memory;
  CacheModel cache;
  std::shared_ptr<Stream> legacy;   // the null stream
  std::atomic<Err> lost{Err::kOk};  // sticky
};

// Made at the first call: SIM_GPU_CARDS (2) cards with SIM_GPU_MEMORY bytes (1 GiB) and a cache of
// SIM_GPU_CACHE bytes (4 MiB: flushing it costs no time to speak of). Never destroyed.
const std::vector<std::unique_ptr<Card>>& Cards();

// What the runtime can do at all: no driver, an old driver, no cards.
Err Usable();
// kOk, or why `ordinal` is none.
Err CheckOrdinal(int ordinal);
SIM_API Err SetCurrent(int ordinal);
SIM_API int Current();
// Of this thread. Only when Usable().
SIM_API Card& CurrentCard();
// Null: no such card.
SIM_API const char* NameOf(int ordinal);
// Usable, and the current card is not lost.
SIM_API Err Healthy();
// Whether this thread has the current card's context: it comes with the first call that works on
// the card, or chooses it.
SIM_API bool HasContext();

// The card whose memory this address is; null: none.
Card* OwnerOf(const void* address);
// What a kernel of `card` can reach: its own memory and page-locked memory. Null: it cannot.
char* Reach(Card& card, const void* address, size_t bytes);

// The thread's last error, as cudaGetLastError knows it.
void Remember(Err error);
Err LastError(bool forget);

}  // namespace simgpu
