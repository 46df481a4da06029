#include "provider/kernels/inner_product.h"

#include <optional>
#include <string>
#include <utility>

#include "provider/element_type.h"

namespace tunableop {

Status InnerProduct::Init(const OpInfo& info, std::shared_ptr<SessionState> state,
                          ONNXTensorElementDataType type) {
  const std::optional<DataType> known = DataTypeOf(type);
  if (!known) {
    return {StatusCode::kInternal, std::string(info.op().op) + ": its type has no products"};
  }
  type_ = *known;
  state_ = std::move(state);
  node_ = state_->AddNode(info.op().op, info.Name());
  return Status::Ok();
}

Problem InnerProduct::Start() const noexcept {
  Problem problem;
  problem.a_type = problem.b_type = problem.c_type = type_;
  problem.threads = 0;
  if (type_ == DataType::kFloat32) problem.precision = state_->options().precision;
  return problem;
}

Status InnerProduct::Run(const OpContext& context, Problem problem,
                         const Operands& operands) const {
  problem.align_a = AlignmentClass(operands.a);
  problem.align_b = AlignmentClass(operands.b);
  problem.align_c = AlignmentClass(operands.c);
  problem.alpha = ClassOf(operands.alpha);
  problem.beta = ClassOf(operands.beta);
  QueueExecutor executor(context.queue());
  return state_->Run(problem, operands, executor, *node_);
}

}  // namespace tunableop
