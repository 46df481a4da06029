// Copies of a card's operands on the host, to check answers against.
#pragma once

#include <cstddef>
#include <memory>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/device_stream.h"
#include "tuner/operand_ranges.h"

namespace tunableop {

class DeviceOperands {
 public:
  // What it would take on the host: A, B, the bias, and C where beta is not zero.
  static size_t BytesFor(const Problem& problem, const Operands& operands) noexcept;
  // Downloads them. kOutOfMemory: of the host. `problem` and `operands` (the card's) must outlive
  // this.
  static Result<DeviceOperands> Download(const Problem& problem, const Operands& operands,
                                         MeasuringStream& stream);

  // As the card's, with pointers to the copies. C is null where beta is zero.
  const Operands& view() const noexcept { return view_; }

  // Whether the card's operands are no longer what was copied: all of each up to 64 KiB, 64 pieces
  // of 1 KiB of larger ones. A change of a few elements may be missed, another tensor in its place
  // is not. False when they cannot be read.
  bool Changed(MeasuringStream& stream) const;

 private:
  struct Part {
    Range on_card;
    std::unique_ptr<char[]> copy;
  };
  Part a_;
  Part b_;
  Part c_;
  Part bias_;
  Operands view_;
};

// op(B)^T, as n x k with dense rows of k, one for each batch item that has its own, from a copy of
// B on the host: Operands::b_transposed. `out` has BytesOfTransposedB().
size_t BytesOfTransposedB(const Problem& problem) noexcept;
void TransposeB(const Problem& problem, const void* b, Executor& executor, void* out) noexcept;

}  // namespace tunableop
