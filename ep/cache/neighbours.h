// What is known of other sizes of the same product: for a problem that was never measured, the
// choice of its nearest neighbour is a better guess than none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "cache/record.h"
#include "gemm/problem.h"

namespace tunableop {

// A range of m for which one choice is made: 1, 2, 3-4, 5-8, 9-16 and so on. Forty of them reach
// beyond 10^11.
struct MRange {
  int64_t low = 0;
  int64_t high = 0;
  bool operator==(const MRange&) const = default;
};
// Of an m >= 1. For 0 and less {0, 0}: nothing is chosen for an empty product.
MRange BucketOf(int64_t m) noexcept;

// What problems that differ in m alone have in common: m is 0, and a leading dimension or stride of
// A and C that follows from m in a product without gaps is -1.
Problem WithoutM(const Problem& problem) noexcept;

// An index of tuned problems. Thread-safe (a mutex): it is asked after the shape cache has missed,
// never on a hit.
class Neighbours {
 public:
  // At most `capacity` (>= 1) entries, of both kinds together; beyond it the one goes that was put
  // longest ago.
  explicit Neighbours(size_t capacity);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // Adds or replaces what is known of the record's problem or, with m_low and m_high, of its
  // bucket.
  void Put(const Record& record);

  // Forgets the entry of this very problem; buckets stay. False: there was none.
  bool Erase(const Problem& problem);
  // Forgets the bucket entry that Bucket would give. False: there was none.
  bool EraseBucket(const Problem& problem);
  void Clear();

  // The winner of the problem that differs from `problem` in m (and alignment) alone and whose m is
  // nearest in ratio; of two equally near the larger one's. Never of an equal problem, nor of a
  // bucket. Nothing for m < 1.
  std::optional<Candidate> Nearest(const Problem& problem) const;
  // The same as a guess to run unmeasured: only a winner that beat the default there, at an m that
  // is at most twice as large or as small (a default's own choice for its m is the better guess
  // otherwise: measured, 1.07 times faster for m = 1 than the default of m = 32).
  std::optional<Candidate> Advice(const Problem& problem) const;

  // The bucket entry whose range holds problem.m, whatever the alignment; of several the narrowest.
  std::optional<Record> Bucket(const Problem& problem) const;

  size_t size() const;
  size_t capacity() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunableop
