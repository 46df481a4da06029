#include "cache/epoch.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <utility>

namespace tunableop::epoch {
namespace {

constexpr uint64_t kIdle = 0;

struct alignas(64) Slot {
  std::atomic<uint64_t> epoch{kIdle};
  std::atomic<bool> owned{false};
};

// Blocks are never freed: a scanning writer walks them without a lock. Slots are reused when their
// thread ends, so the memory follows the largest number of threads that ever read at once.
struct Block {
  std::array<Slot, 64> slots;
  std::atomic<Block*> next{nullptr};
};

constinit std::atomic<uint64_t> current_epoch{1};
constinit Block first_block;
// Readers that found no slot (out of memory). While there is one, nothing is freed.
constinit std::atomic<int64_t> slotless_readers{0};

struct Item {
  uint64_t epoch;
  std::unique_ptr<Retired> object;
};

struct Retirement {
  std::mutex mutex;
  std::vector<Item> items;
};

// Never destroyed: threads may still read while static objects are being destroyed.
Retirement& TheRetirement() {
  static Retirement* retirement = new Retirement;
  return *retirement;
}

// Plain data, so that reaching it needs no initialisation check.
struct ThreadState {
  Slot* slot;
  uint32_t depth;
};
constinit thread_local ThreadState thread_state{nullptr, 0};

// Gives the slot back when the thread ends.
struct SlotKeeper {
  Slot* slot = nullptr;
  ~SlotKeeper() {
    if (slot == nullptr) return;
    thread_state.slot = nullptr;
    slot->epoch.store(kIdle, std::memory_order_release);
    slot->owned.store(false, std::memory_order_release);
  }
};
thread_local SlotKeeper slot_keeper;

Slot* ClaimSlot() noexcept {
  Block* block = &first_block;
  while (true) {
    for (Slot& slot : block->slots) {
      bool expected = false;
      if (!slot.owned.load(std::memory_order_relaxed) &&
          slot.owned.compare_exchange_strong(expected, true, std::memory_order_acq_rel)) {
        return &slot;
      }
    }
    Block* next = block->next.load(std::memory_order_acquire);
    if (next == nullptr) {
      Block* fresh = new (std::nothrow) Block;
      if (fresh == nullptr) return nullptr;
      // seq_cst: a writer that does not see this block comes before every reader in it (see 2).
      if (block->next.compare_exchange_strong(next, fresh)) {
        next = fresh;
      } else {
        delete fresh;  // another thread was first; `next` is its block
      }
    }
    block = next;
  }
}

// Everything retired under an epoch smaller than this can be freed.
uint64_t OldestReader() noexcept {
  if (slotless_readers.load() != 0) return 0;
  uint64_t oldest = UINT64_MAX;
  for (const Block* block = &first_block; block != nullptr; block = block->next.load()) {
    for (const Slot& slot : block->slots) {
      const uint64_t seen = slot.epoch.load();
      if (seen != kIdle && seen < oldest) oldest = seen;
    }
  }
  return oldest;
}

// Moves what can be freed out of the list, so that its destructors run without the lock. May throw,
// and then has moved nothing.
std::vector<std::unique_ptr<Retired>> TakeFree(Retirement& retirement) {
  std::vector<std::unique_ptr<Retired>> free;
  if (retirement.items.empty()) return free;
  const uint64_t oldest = OldestReader();
  const auto is_free = [&](const Item& item) { return item.epoch < oldest; };
  std::vector<Item>& items = retirement.items;
  free.reserve(static_cast<size_t>(std::count_if(items.begin(), items.end(), is_free)));
  for (Item& item : items) {
    if (is_free(item)) free.push_back(std::move(item.object));
  }
  std::erase_if(items, is_free);
  return free;
}

}  // namespace

void Enter() noexcept {
  ThreadState& state = thread_state;
  if (state.depth++ != 0) return;
  if (state.slot == nullptr) {
    state.slot = ClaimSlot();
    if (state.slot == nullptr) {
      slotless_readers.fetch_add(1);
      return;
    }
    slot_keeper.slot = state.slot;
  }
  state.slot->epoch.store(current_epoch.load(std::memory_order_acquire));
}

void Leave() noexcept {
  ThreadState& state = thread_state;
  if (--state.depth != 0) return;
  if (state.slot == nullptr) {
    slotless_readers.fetch_sub(1);
    return;
  }
  state.slot->epoch.store(kIdle, std::memory_order_release);
}

void Retire(std::vector<std::unique_ptr<Retired>> unlinked) noexcept {
  std::vector<std::unique_ptr<Retired>> free;
  try {
    Retirement& retirement = TheRetirement();
    const std::lock_guard lock(retirement.mutex);
    if (retirement.items.capacity() < retirement.items.size() + unlinked.size()) {
      retirement.items.reserve(2 * (retirement.items.size() + unlinked.size()));
    }
    const uint64_t epoch = current_epoch.fetch_add(1);
    for (std::unique_ptr<Retired>& object : unlinked) {
      retirement.items.push_back({epoch, std::move(object)});
    }
    free = TakeFree(retirement);
  } catch (...) {
    // No memory for the list. Readers may be looking: rather leak than free.
    for (std::unique_ptr<Retired>& object : unlinked)
      (void)object.release();  // NOLINT(bugprone-unused-return-value)
  }
}

void Collect() noexcept { Retire({}); }

size_t Pending() {
  Retirement& retirement = TheRetirement();
  const std::lock_guard lock(retirement.mutex);
  return retirement.items.size();
}

}  // namespace tunableop::epoch
