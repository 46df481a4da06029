#include "tuner/tuner.h"

#include <exception>
#include <new>

#include "tuner/tuning.h"

namespace tunableop {
namespace {

Status CheckOperands(const Problem& problem, const Operands& operands) {
  TUNABLEOP_RETURN_IF_ERROR(Validate(problem));
  if (Flops(problem) == 0.0) return Status::Ok();
  const auto missing = [&](const char* name) {
    return Status(StatusCode::kInvalidArgument,
                  ToString(problem) + ": expected a pointer to " + name + ", found none");
  };
  if (operands.a == nullptr) return missing("A");
  if (problem.b_layout == BLayout::kPlain && operands.b == nullptr) return missing("B");
  if (problem.b_layout == BLayout::kPacked && operands.packed_b == nullptr) {
    return missing("the packed B");
  }
  if (operands.beta != 0.0F && operands.c == nullptr) return missing("C, which beta asks for");
  const bool biased = problem.epilogue == Epilogue::kBias ||
                      problem.epilogue == Epilogue::kBiasRelu ||
                      problem.epilogue == Epilogue::kBiasGelu;
  if (biased && operands.bias == nullptr) return missing("the bias");
  return Status::Ok();
}

}  // namespace

Result<TuneResult> Tune(const Problem& problem, const Operands& operands, Executor& executor,
                        std::span<const std::shared_ptr<const Backend>> backends,
                        const TunerOptions& options) {
  try {
    if (Status status = CheckOperands(problem, operands); !status.ok()) return status;
    return Tuning(problem, operands, executor, options).Run(backends);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory, ToString(problem) + ": out of memory while tuning");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, ToString(problem) + ": " + error.what());
  }
}

}  // namespace tunableop
