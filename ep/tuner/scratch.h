// The copy of C that measuring writes to: same strides and alignment class as C, full of poison
// wherever nothing was written, with a margin on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop {

class Scratch {
 public:
  // kOutOfMemory: it would need more than `max_bytes`, or there is no memory.
  static Result<Scratch> Create(const Problem& problem, size_t max_bytes);

  // What Create allocates. kOutOfMemory: more than `max_bytes`.
  static Result<size_t> BytesFor(const Problem& problem, size_t max_bytes);
  // The image of a scratch that lies elsewhere (on a card): in BytesFor() bytes of the caller's,
  // aligned to 64, which must outlive this. It is copied in before each check, so nothing is
  // poisoned after one.
  static Scratch Image(const Problem& problem, void* memory);
  // Bytes from memory() to c().
  static size_t OffsetOfC(const Problem& problem) noexcept;

  // What a kernel takes for C.
  void* c() const noexcept { return c_; }
  // All of it, margins included: `bytes()` from `memory()` on.
  void* memory() const noexcept { return memory_.get(); }
  size_t bytes() const noexcept { return bytes_; }

  // Writes poison (a NaN that no arithmetic makes) over the batch x m x n elements of C.
  void PoisonC() noexcept;
  // And over all the rest.
  void PoisonAll() noexcept { Poison(memory_.get(), elements_); }
  // Copies the elements of `c` (the caller's C) in.
  void FillC(const void* c) noexcept;
  // The first element of C that still is poison, bit for bit; false when there is none.
  bool FindPoison(Executor& executor, int64_t& batch, int64_t& row, int64_t& column) const;
  // Copies the elements of C to `out`, [batch][m][n] without gaps.
  void CopyC(Executor& executor, void* out) const noexcept;

  // Poisons C again and looks whether all the rest (margins, and the gaps that leading dimension
  // and batch stride leave) still is poison, as it must be after a right kernel. Restores it if
  // not.
  bool PoisonAndCheckGaps() noexcept;

 private:
  struct Free {
    Free() noexcept : bytes(0) {}
    explicit Free(size_t size) noexcept : bytes(size) {}
    size_t bytes;                                  // 0: the memory is the caller's
    void operator()(void* memory) const noexcept;  // wipes, then frees
  };

  explicit Scratch(const Problem& problem) : problem_(problem) {}
  template <typename Function>
  void ForEachRow(Function function) const noexcept;
  void Poison(void* to, int64_t elements) const noexcept;
  void LayOut(size_t bytes) noexcept;
  int64_t OffsetOfRow(int64_t row) const noexcept;  // in elements, from c()
  // No element of C lies in a gap between others: then C need not be poisoned to look at the gaps.
  bool RowsAreInOrder() const noexcept;
  bool GapsArePoison() const noexcept;

  Problem problem_;
  bool image_ = false;
  std::unique_ptr<void, Free> memory_;
  size_t bytes_ = 0;
  uint64_t salt_ = 0;     // makes this scratch's poison
  int64_t first_ = 0;     // elements before c()
  int64_t elements_ = 0;  // all of them, margins included
  void* c_ = nullptr;
};

}  // namespace tunableop
