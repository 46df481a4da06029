// A matrix product inside of an operator's kernel: the same choices, measured the same way, as a
// MatMul's.
#pragma once

#include <memory>

#include "gemm/backend.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "provider/kernels/op_kernel.h"
#include "provider/session_state.h"

namespace tunableop {

// Made when the kernel is made; Run may be called by several threads at once.
class InnerProduct {
 public:
  // Error: products of this type have no kernel.
  Status Init(const OpInfo& info, std::shared_ptr<SessionState> state,
              ONNXTensorElementDataType type);

  // The types are set, and what the session's options say; everything else is the caller's.
  Problem Start() const noexcept;
  // Sets what follows from the addresses, and queues the product.
  Status Run(const OpContext& context, Problem problem, const Operands& operands) const;

  size_t bytes() const noexcept { return SizeOf(type_); }  // of an element

 private:
  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GemmNode> node_;
  DataType type_ = DataType::kFloat32;
};

}  // namespace tunableop
