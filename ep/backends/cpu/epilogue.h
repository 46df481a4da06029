// What an Epilogue means for a kernel.
#pragma once

#include <cstdint>

#include "backends/cpu/micro.h"
#include "gemm/backend.h"
#include "gemm/problem.h"

namespace tunableop::cpu {

inline int32_t ActivationOf(Epilogue epilogue) noexcept {
  switch (epilogue) {
    case Epilogue::kRelu:
    case Epilogue::kBiasRelu:
      return kReluActivation;
    case Epilogue::kGelu:
    case Epilogue::kBiasGelu:
      return kGeluActivation;
    default:
      return kNoActivation;
  }
}

// nullptr when the epilogue has no bias, whatever the caller passed.
inline const float* BiasOf(const Problem& problem, const Operands& operands) noexcept {
  switch (problem.epilogue) {
    case Epilogue::kBias:
    case Epilogue::kBiasRelu:
    case Epilogue::kBiasGelu:
      return static_cast<const float*>(operands.bias);
    default:
      return nullptr;
  }
}

}  // namespace tunableop::cpu
