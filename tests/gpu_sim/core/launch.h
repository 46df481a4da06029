// A GEMM on a stream: what every library's front end comes down to.
#pragma once

#include <cstddef>
#include <memory>

#include "core/cost.h"
#include "core/gemm.h"
#include "core/stream.h"

namespace simgpu {

struct Launch {
  Gemm gemm;  // with addresses of the card
  Summation how;
  Algo algo;
  int cost_id = -1;   // instead of algo.id in the cost: what an upgrade does not change
  bool first = true;  // the first of the heuristic's list for this problem
  char* workspace = nullptr;
  // When set: the card's addresses of alpha and beta, read when the kernel runs.
  const void* alpha = nullptr;
  const void* beta = nullptr;
  Type scale_type = Type::kF32;
};

// What a fault makes of the call itself.
enum class Refusal { kNone, kNotSupported, kExecutionFailed };
SIM_API Refusal RefusalOf(int algo_id);

SIM_API Err LaunchGemm(const std::shared_ptr<Stream>& stream, Launch launch);

// to[i, j] = alpha * from[i, j] (+ beta * other[i, j]) as a kernel on the stream.
SIM_API Err LaunchTransform(const std::shared_ptr<Stream>& stream, Matrix from, Matrix other,
                            Matrix to, int64_t rows, int64_t columns, int64_t batch, double alpha,
                            double beta);

}  // namespace simgpu
