// A product by a constant with a row of biases, and Relu or not, in the form that is faster: the
// library's epilogue, or the product by itself and a kernel that adds them.
#pragma once

#include <atomic>
#include <memory>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "provider/fusion/fusion.h"

namespace tunableop {

// Thread-safe once made.
class BiasedProduct {
 public:
  Status Init(const FusedInfo& info, ONNXTensorElementDataType type, bool relu);
  // `problem`: without an epilogue, C without gaps; `operands`: with the biases. Queues the work.
  Status Run(const OpContext& context, Problem problem, const Operands& operands,
             GemmNode& node) const;

 private:
  Status RunEpilogue(const OpContext& context, const Problem& problem, const Operands& operands,
                     GemmNode& node) const;
  Status RunTwoKernels(const OpContext& context, Problem problem, Operands operands,
                       GemmNode& node) const;

  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GpuSession> gpu_;
  DeviceFunction after_;
  bool relu_ = false;
  mutable std::atomic<bool> has_epilogue_{true};  // until the card's libraries say otherwise
};

}  // namespace tunableop
