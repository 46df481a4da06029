#include "provider/fusion/biased_product.h"

#include "gemm/device_queue.h"
#include "kernels/bias_act_launch.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

// By number; the first is the usual one, where a library has the epilogue.
enum Form : size_t { kEpilogue, kTwoKernels };
constexpr const char* kForms[] = {"epilogue", "two kernels"};
// "ldb": of B that is a part of a wider matrix.
constexpr const char* kSizes[] = {"M", "N", "K", "ldb", "relu"};
constexpr FormGroup kGroup = {"MatMul+Add", kForms, kSizes};

}  // namespace

Status BiasedProduct::Init(const FusedInfo& info, ONNXTensorElementDataType type, bool relu) {
  state_ = info.state();
  gpu_ = info.gpu();
  relu_ = relu;
  const char* module = ModuleType(type);
  Result<DeviceFunction> after =
      info.gpu()->card().kernels().Get("bias_act", module, module, relu ? "bias_relu" : "bias_add");
  if (!after.ok()) return after.TakeStatus();
  after_ = std::move(after).value();
  return Status::Ok();
}

Status BiasedProduct::Run(const OpContext& context, Problem problem, const Operands& operands,
                          GemmNode& node) const {
  problem.epilogue = relu_ ? Epilogue::kBiasRelu : Epilogue::kBias;
  if (!has_epilogue_.load(std::memory_order_relaxed)) {
    return RunTwoKernels(context, problem, operands, node);
  }
  const FormAnswer answer{operands.c, problem.m, problem.n};
  const FormCall call{
      {&kGroup,
       problem.c_type,
       problem.precision,
       {problem.m, problem.n, problem.k, problem.ldb == problem.n ? 0 : problem.ldb, relu_ ? 1 : 0},
       gpu_->graphs().enabled()},
      kEpilogue,
      /*weights=*/true,
      {&answer, 1},
      problem};
  return state_->RunInForm(call, context.queue(), [&](size_t form) {
    return form == kEpilogue ? RunEpilogue(context, problem, operands, node)
                             : RunTwoKernels(context, problem, operands, node);
  });
}

// `problem` and `operands`: with the epilogue.
Status BiasedProduct::RunEpilogue(const OpContext& context, const Problem& problem,
                                  const Operands& operands, GemmNode& node) const {
  QueueExecutor executor(context.queue());
  Status status = state_->Run(problem, operands, executor, node);
  if (status.code() != StatusCode::kNotSupported) return status;
  has_epilogue_.store(false, std::memory_order_relaxed);  // no library here has it
  return RunTwoKernels(context, problem, operands, node);
}

Status BiasedProduct::RunTwoKernels(const OpContext& context, Problem problem, Operands operands,
                                    GemmNode& node) const {
  device::BiasActTensors tensors;
  tensors.x = tensors.out = operands.c;
  tensors.x_stride = problem.n;
  tensors.bias = operands.bias;
  problem.epilogue = Epilogue::kNone;
  operands.bias = nullptr;
  QueueExecutor executor(context.queue());
  TUNABLEOP_RETURN_IF_ERROR(state_->Run(problem, operands, executor, node));
  return context.Launch(
      after_, device::PrepareBiasAct(tensors, problem.m, problem.n, 1.0, SizeOf(problem.c_type)));
}

}  // namespace tunableop
