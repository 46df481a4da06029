// Calls a kernel that may never return, and goes on without it.
//
// A thread cannot be stopped from outside, so one that does not come back is left behind with all
// that it may still touch: copies of the operands, the plan and its library. At most four of them
// in a process; after that, kernels that may hang are not called any more.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop {

class HangGuard {
 public:
  // `max_bytes`: for the copies. `problem` and `operands` must outlive this, not what it abandons.
  HangGuard(const Problem& problem, const Operands& operands, size_t max_bytes, double hang_ms)
      : problem_(problem), operands_(operands), max_bytes_(max_bytes), hang_ms_(hang_ms) {}

  // Makes the copies that a call needs: A, B and bias once, C for each call, since who was
  // abandoned may still write to his. Why not: too large, no memory, or too many were abandoned.
  Status Prepare();

  // Calls the plan on another thread, alone and on the copies, and waits hang_ms for it.
  // `hung`: it did not return. To be called after a Prepare of its own that was ok.
  Status Call(std::shared_ptr<const Backend> backend, std::shared_ptr<const Plan> plan, bool& hung);

 private:
  using Memory = std::shared_ptr<char>;
  Result<Memory> Copy(const void* data, size_t bytes);

  const Problem& problem_;
  const Operands& operands_;
  const size_t max_bytes_;
  const double hang_ms_;
  size_t used_bytes_ = 0;
  Memory a_;
  Memory b_;
  Memory bias_;
  Memory c_;
};

}  // namespace tunableop
