// What was copied from a card to the host, to check answers against, and whether it still is so.
#pragma once

#include <cstddef>
#include <vector>

#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/device_stream.h"

namespace tunableop {

class HostCopies {
 public:
  // Queues a copy of `bytes` to `to`, of the host, which must outlive this. It is there when the
  // stream has finished.
  Status Fetch(MeasuringStream& stream, void* to, const void* card, size_t bytes);

  // Whether the card's memory is no longer what was copied: all of a copy up to 64 KiB, 16 pieces
  // of 1 KiB of a larger one; of many copies, about 32. A change of a few elements may be missed,
  // another tensor in its place is not. False when it cannot be read. Waits.
  bool Changed(MeasuringStream& stream) const;

 private:
  struct Copy {
    const char* card;
    const char* copy;
    size_t bytes;
  };
  static bool Differs(MeasuringStream& stream, const Copy& copy);

  std::vector<Copy> copies_;
};

// What Operands::b_transposed says of a plain B, all in the host's memory. `out` has
// BytesOfTransposedB().
size_t BytesOfTransposedB(const Problem& problem) noexcept;
void TransposeB(const Problem& problem, const void* b, Executor& executor, void* out) noexcept;

}  // namespace tunableop
