#include "tuner/preconditions.h"

#include <cstdio>

namespace tunableop {

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

bool MayOverlap(const Problem& p) noexcept {
  const bool apart = p.stride_c >= (p.m - 1) * p.ldc + p.n;
  const bool interleaved = p.stride_c >= p.n && (p.batch - 1) * p.stride_c + p.n <= p.ldc;
  return p.batch > 1 && !apart && !interleaved;
}

std::string Milliseconds(double ms) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g ms", ms);
  return text;
}

}  // namespace tunableop
