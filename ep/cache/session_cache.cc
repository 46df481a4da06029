#include "cache/session_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "cache/epoch.h"
#include "cache/eviction.h"

namespace tunableop {
namespace {

constexpr size_t kSmallestTable = 64;

// What a slot of the table points to. Immutable but for what the eviction notes in it.
struct Node final : Retired, Tracked {
  Node(uint64_t h, const Problem& p, std::shared_ptr<const Entry> e)
      : Tracked(h), problem(p), entry(std::move(e)) {}

  const Problem problem;  // a copy: comparing does not wait for another line of memory
  const std::shared_ptr<const Entry> entry;
};

// Open addressing with linear probing. A slot that was ever filled never becomes empty again, only
// `Removed()`, so that a probe never ends before the entry it looks for. Too many removed slots, or
// too many entries, and the writer builds a new table, publishes it and retires the old one, which
// readers may finish with: no reader misses an entry that is there.
struct Table final : Retired {
  explicit Table(size_t size) : mask(size - 1), slots(size) {}

  const size_t mask;
  std::vector<std::atomic<const Node*>> slots;
};

// Compares bytes (a Problem has no padding) without a branch for each field.
inline bool Same(const Problem& a, const Problem& b) noexcept {
  uint64_t x[sizeof(Problem) / sizeof(uint64_t)];
  uint64_t y[sizeof(Problem) / sizeof(uint64_t)];
  std::memcpy(x, &a, sizeof(Problem));
  std::memcpy(y, &b, sizeof(Problem));
  uint64_t difference = 0;
  for (size_t i = 0; i < std::size(x); ++i) difference |= x[i] ^ y[i];
  return difference == 0;
}

const Node* Removed() noexcept {
  static const Node removed(0, {}, nullptr);
  return &removed;
}

}  // namespace

struct SessionCache::Impl {
  explicit Impl(size_t max_entries)
      : capacity(std::max<size_t>(1, max_entries)),
        removed(Removed()),
        table(new Table(kSmallestTable)),
        eviction(capacity) {}

  ~Impl() {
    Table* last = table.load();
    std::vector<std::unique_ptr<Retired>> all;
    try {
      all.reserve(size.load() + 1);
    } catch (const std::bad_alloc&) {
      return;  // leaks rather than frees what a reader may hold
    }
    for (auto& slot : last->slots) {
      const Node* node = slot.load();
      if (node != nullptr && node != removed) all.push_back(Own(node));
    }
    all.emplace_back(last);
    // A thread may still hold a guard over an entry of this cache.
    epoch::Retire(std::move(all));
  }

  // Writers may change what readers may not.
  static Node& Mutable(const Node* node) { return *const_cast<Node*>(node); }
  static std::unique_ptr<Retired> Own(const Node* node) {
    return std::unique_ptr<Retired>(&Mutable(node));
  }

  const Node* FindNode(uint64_t hash, const Problem& problem) const noexcept {
    const Table& t = *table.load();
    for (size_t i = hash & t.mask;; i = (i + 1) & t.mask) {
      const Node* node = t.slots[i].load();
      if (node == nullptr) return nullptr;
      if (node->hash == hash && node != removed && Same(node->problem, problem)) {
        return node;
      }
    }
  }

  // The functions below are called with `mutex` held; what they unlink goes to `unlinked`.

  std::atomic<const Node*>* Locate(uint64_t hash, const Problem& problem) {
    Table& t = *table.load();
    for (size_t i = hash & t.mask;; i = (i + 1) & t.mask) {
      const Node* node = t.slots[i].load();
      if (node == nullptr) return nullptr;
      if (node != removed && node->hash == hash && Same(node->problem, problem)) {
        return &t.slots[i];
      }
    }
  }

  static void Place(Table& t, const Node* node, const Node* removed_mark, size_t& filled) {
    for (size_t i = node->hash & t.mask;; i = (i + 1) & t.mask) {
      const Node* there = t.slots[i].load();
      if (there != nullptr && there != removed_mark) continue;
      if (there == nullptr) ++filled;
      t.slots[i].store(node);
      return;
    }
  }

  void Remove(std::atomic<const Node*>& slot, std::vector<std::unique_ptr<Retired>>& unlinked) {
    unlinked.push_back(Own(slot.load()));
    slot.store(removed);
    size.store(size.load() - 1);
  }

  void EvictOne(std::vector<std::unique_ptr<Retired>>& unlinked) {
    const auto& node = static_cast<const Node&>(eviction.Evict());
    Remove(*Locate(node.hash, node.problem), unlinked);
    evicted.store(evicted.load() + 1);
  }

  // Room for one more entry with at most 3/4 of the slots filled or removed.
  void EnsureRoom(std::vector<std::unique_ptr<Retired>>& unlinked) {
    Table* old = table.load();
    const size_t slots = old->mask + 1;
    if (filled + 1 <= slots / 4 * 3) return;
    const size_t wanted = std::max(kSmallestTable, std::bit_ceil((size.load() + 1) * 2));
    auto fresh = std::make_unique<Table>(wanted);
    filled = 0;
    for (auto& slot : old->slots) {
      const Node* node = slot.load();
      if (node != nullptr && node != removed) Place(*fresh, node, removed, filled);
    }
    table.store(fresh.release());
    unlinked.emplace_back(old);
  }

  const size_t capacity;
  const Node* const removed;
  std::atomic<Table*> table;
  std::atomic<size_t> size{0};
  std::atomic<uint64_t> evicted{0};

  mutable std::mutex mutex;
  size_t filled = 0;  // slots that are not empty
  Eviction eviction;
};

SessionCache::SessionCache(size_t capacity) : impl_(std::make_unique<Impl>(capacity)) {}
SessionCache::~SessionCache() = default;

SessionCache::ReadGuard::ReadGuard() noexcept { epoch::Enter(); }
SessionCache::ReadGuard::~ReadGuard() { epoch::Leave(); }

const Entry* SessionCache::Find(const Problem& problem) const noexcept {
  const Node* node = impl_->FindNode(Hash(problem), problem);
  if (node == nullptr) return nullptr;
  node->Found();
  return node->entry.get();
}

void SessionCache::Put(std::shared_ptr<const Entry> entry) {
  if (entry == nullptr) return;
  const Problem& problem = entry->record.problem;
  const uint64_t hash = Hash(problem);
  auto node = std::make_unique<Node>(hash, problem, std::move(entry));
  std::vector<std::unique_ptr<Retired>> unlinked;
  unlinked.reserve(4);  // at most an entry and a table: nothing below may throw half-way
  {
    const std::lock_guard lock(impl_->mutex);
    if (std::atomic<const Node*>* slot = impl_->Locate(hash, problem)) {
      const Node* old = slot->load();
      impl_->eviction.Replace(Impl::Mutable(old), *node);
      slot->store(node.release());
      unlinked.push_back(Impl::Own(old));
    } else {
      impl_->EnsureRoom(unlinked);  // may throw, and then nothing was lost
      if (impl_->size.load() >= impl_->capacity) impl_->EvictOne(unlinked);
      impl_->eviction.Add(*node);
      Impl::Place(*impl_->table.load(), node.release(), impl_->removed, impl_->filled);
      impl_->size.store(impl_->size.load() + 1);
    }
  }
  if (!unlinked.empty()) epoch::Retire(std::move(unlinked));
}

bool SessionCache::Erase(const Problem& problem) {
  std::vector<std::unique_ptr<Retired>> unlinked;
  unlinked.reserve(1);
  {
    const std::lock_guard lock(impl_->mutex);
    std::atomic<const Node*>* slot = impl_->Locate(Hash(problem), problem);
    if (slot == nullptr) return false;
    impl_->eviction.Remove(Impl::Mutable(slot->load()));
    impl_->Remove(*slot, unlinked);
  }
  epoch::Retire(std::move(unlinked));
  return true;
}

void SessionCache::Clear() {
  std::vector<std::unique_ptr<Retired>> unlinked;
  {
    const std::lock_guard lock(impl_->mutex);
    Table* old = impl_->table.load();
    auto fresh = std::make_unique<Table>(kSmallestTable);
    unlinked.reserve(impl_->size.load() + 1);
    impl_->table.store(fresh.release());
    for (auto& slot : old->slots) {
      const Node* node = slot.load();
      if (node != nullptr && node != impl_->removed) unlinked.push_back(Impl::Own(node));
    }
    unlinked.emplace_back(old);
    impl_->filled = 0;
    impl_->eviction.Clear();
    impl_->size.store(0);
  }
  epoch::Retire(std::move(unlinked));
}

std::vector<std::shared_ptr<const Entry>> SessionCache::Entries() const {
  std::vector<std::shared_ptr<const Entry>> entries;
  const std::lock_guard lock(impl_->mutex);
  entries.reserve(impl_->size.load());
  for (auto& slot : impl_->table.load()->slots) {
    const Node* node = slot.load();
    if (node != nullptr && node != impl_->removed) entries.push_back(node->entry);
  }
  return entries;
}

size_t SessionCache::size() const noexcept { return impl_->size.load(); }
size_t SessionCache::capacity() const noexcept { return impl_->capacity; }
uint64_t SessionCache::evicted() const noexcept { return impl_->evicted.load(); }

}  // namespace tunableop
