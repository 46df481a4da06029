// Operands of one call that outlive it: copies, to measure on later, or made up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gemm/backend.h"
#include "gemm/packed_b.h"
#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop {

// Movable. Every copy has the strides and the alignment class of its original; C is copied only
// when beta reads it.
class OwnedOperands {
 public:
  // `weight` owns the packed matrices that operands.packed_b points into: it is shared, not copied.
  // A plain B is copied. kOutOfMemory: more than `max_bytes` of copies, or no memory.
  static Result<OwnedOperands> Copy(const Problem& problem, const Operands& operands,
                                    std::shared_ptr<const PackedB> weight, size_t max_bytes);
  // `view` points into what `owner` keeps alive, `bytes` of it: memory of a card.
  static OwnedOperands Of(const Operands& view, std::shared_ptr<const void> owner, size_t bytes);
  // Numbers evenly spread over [-1, 1], the same ones for the same problem; alpha and beta as their
  // classes say (0.5 for "other"). In the host's memory.
  static Result<OwnedOperands> MakeUp(const Problem& problem, size_t max_bytes);

  // C is null unless beta reads it: measuring writes to a scratch of its own.
  const Operands& view() const noexcept { return view_; }
  // What was allocated for it: shared weights do not count.
  size_t bytes() const noexcept { return bytes_; }

 private:
  // `elements` at an address of exactly this alignment class. Null when there is no memory.
  void* Allocate(int64_t elements, size_t element_bytes, uint8_t alignment_class);

  Operands view_;
  size_t bytes_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::shared_ptr<const PackedB> weight_;
  std::shared_ptr<const void> owner_;
};

// Elements from the first to the last of the batch, as stored.
int64_t ElementsOfA(const Problem& problem) noexcept;
int64_t ElementsOfB(const Problem& problem) noexcept;  // packed or plain
int64_t ElementsOfC(const Problem& problem) noexcept;

}  // namespace tunableop
