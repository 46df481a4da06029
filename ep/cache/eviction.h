// Which entry of a full cache goes: a CLOCK in two segments, so that a burst of problems met once
// pushes out itself and not what every request needs.
//
// New entries are in probation. One that was found kHot times is protected, as soon as the hand
// comes by; protected ones fill at most 4/5 of the capacity. The victim comes from probation: the
// longest there that was not found since the hand last came by. Beyond 4/5, a protected entry that
// was not found since then goes back to probation and has to earn its place anew.
//
// Problems that were evicted are remembered for a while (by their hash, as many as the capacity),
// with the times they were found: one that comes back counts that as having been found. Without
// that, a new set of problems larger than probation would never be found there, and the old one
// would stay for ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

namespace tunableop {

// Found this often, an entry is part of what the session does all the time.
inline constexpr uint8_t kHot = 4;

// What the policy knows of an entry; a base of the cache's node. In the lists of one Eviction.
class Tracked {
 public:
  explicit Tracked(uint64_t h) : hash(h) {}
  Tracked(const Tracked&) = delete;
  Tracked& operator=(const Tracked&) = delete;

  const uint64_t hash;

  // To be called when the entry is found, by any thread, at any time. Writes only while there is
  // something to tell, so that a hot entry's cache line stays shared between the cores that read
  // it. Two threads at once may count as one.
  void Found() const noexcept {
    const uint8_t seen = found_.load(std::memory_order_relaxed);
    if (seen == kHottest) return;
    const uint8_t count = seen & kCount;
    found_.store(static_cast<uint8_t>(kSinceHand | (count < kHot ? count + 1 : count)),
                 std::memory_order_relaxed);
  }

 private:
  friend class Eviction;
  static constexpr uint8_t kSinceHand = 0x80;  // found since the hand last came by
  static constexpr uint8_t kCount = 0x7f;      // times found, kHot at most
  static constexpr uint8_t kHottest = kSinceHand | kHot;

  mutable std::atomic<uint8_t> found_{0};
  bool protected_ = false;
  Tracked* previous_ = nullptr;
  Tracked* next_ = nullptr;
};

// Not thread-safe: the caller's writers exclude each other. Owns no entry. Nothing throws.
class Eviction {
 public:
  explicit Eviction(size_t capacity);

  void Add(Tracked& entry) noexcept;
  // `fresh` takes the place of `old`, and what is known of it.
  void Replace(Tracked& old, Tracked& fresh) noexcept;
  void Remove(Tracked& entry) noexcept;
  // Chooses an entry, removes it from the lists and remembers it. Some entry is there, and as many
  // as the capacity when any is to be protected. A bounded number of steps, but for those that make
  // an entry protected, once.
  Tracked& Evict() noexcept;
  // Forgets everything.
  void Clear() noexcept;

 private:
  // Doubly linked through the entries.
  struct List {
    Tracked* first = nullptr;
    Tracked* last = nullptr;
    size_t size = 0;
    void Append(Tracked& entry) noexcept;
    void Unlink(Tracked& entry) noexcept;
    void Rotate() noexcept;  // the first becomes the last
  };
  struct Past {
    uint8_t count = 0;
    std::list<uint64_t>::iterator age;
  };

  List& ListOf(const Tracked& entry) noexcept { return entry.protected_ ? protected_ : probation_; }
  Tracked& Victim() noexcept;
  void Promote(Tracked& entry) noexcept;
  void DemoteOne() noexcept;
  void Remember(const Tracked& entry) noexcept;
  uint8_t Recall(uint64_t hash) noexcept;

  const size_t most_protected_;
  const size_t most_past_;
  List probation_;  // the hand is at the first
  List protected_;  // the same
  std::unordered_map<uint64_t, Past> past_;
  std::list<uint64_t> past_ages_;  // hashes, the longest evicted first
};

}  // namespace tunableop
