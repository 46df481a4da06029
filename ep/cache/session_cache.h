// The shape cache of one session: Problem -> prepared plan.
//
// A hit is O(1) and takes no lock, allocates nothing and does no I/O. Writers serialise among
// themselves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/record.h"
#include "gemm/backend.h"
#include "gemm/problem.h"

namespace tunableop {

// A record with its plan. Immutable once in the cache.
struct Entry {
  Record record;
  std::shared_ptr<const Plan> plan;
  // Of a plan that needs a transposed copy of B: what runs where there is none; itself, where
  // nothing else does. Null otherwise.
  std::shared_ptr<const Plan> plan_without_copy;
  bool tuned = false;    // false: the default kernel, kept until it is measured
  std::string why;       // why this kernel: one line for a person
  uint64_t hash = 0;     // Hash(record.problem)
  int64_t since_ns = 0;  // steady clock: when it was measured, confirmed or loaded

  // Notes of the session that owns the cache; they decide nothing here.
  struct Notes {
    std::atomic<bool> attention{false};    // the next use has something to do beside running it
    std::atomic<bool> queued{false};       // waits to be measured
    std::atomic<uint64_t> uses{0};         // of an entry that is not tuned
    std::atomic<uint64_t> nanoseconds{0};  // of these uses, together
    std::atomic<int64_t> next_try_ns{0};   // steady clock: not to be measured before
    std::atomic<uint8_t> reason{0};        // why it is not measured
  };
  mutable Notes notes;
};

class SessionCache {
 public:
  // At most `capacity` entries (>= 1); beyond it what is rarely used goes: see
  // cache/eviction.h.
  explicit SessionCache(size_t capacity);
  ~SessionCache();
  SessionCache(const SessionCache&) = delete;
  SessionCache& operator=(const SessionCache&) = delete;

  // Keeps every Entry that Find returned on this thread alive. Cheap (two atomic stores); nests.
  class ReadGuard {
   public:
    ReadGuard() noexcept;
    ~ReadGuard();
    ReadGuard(const ReadGuard&) = delete;
    ReadGuard& operator=(const ReadGuard&) = delete;
  };

  // nullptr on a miss. The entry is valid while the caller's ReadGuard lives.
  const Entry* Find(const Problem& problem) const noexcept;

  // Inserts or replaces. Readers see the old or the new entry, never a mixture.
  void Put(std::shared_ptr<const Entry> entry);

  // Removes one problem; false when it was not there.
  bool Erase(const Problem& problem);
  void Clear();

  // A snapshot, in no particular order.
  std::vector<std::shared_ptr<const Entry>> Entries() const;

  size_t size() const noexcept;
  size_t capacity() const noexcept;
  uint64_t evicted() const noexcept;  // entries dropped because the cache was full, ever

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunableop
