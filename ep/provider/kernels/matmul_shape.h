// The shape rules of ONNX MatMul (numpy.matmul) turned into GEMM calls. Pure arithmetic,
// allocation-free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gemm/status.h"

namespace tunableop {

inline constexpr size_t kMaxRank = 32;

// One loop around the (batched) GEMM. Strides count whole matrices. Without initialisers on
// purpose: the arrays below are on the hot path, and clearing them costs more than a small product.
struct BatchLoop {
  int64_t count;
  int64_t a_stride;
  int64_t b_stride;
};

struct MatMulShape {
  int64_t m = 0;  // rows of one GEMM call; batch dimensions of A are folded in where B is shared
  int64_t n = 0;
  int64_t k = 0;
  BatchLoop inner;                        // the batch of one GEMM call
  std::array<BatchLoop, kMaxRank> outer;  // loops around the call, innermost first
  size_t outer_count = 0;
  std::array<int64_t, kMaxRank> output;  // dimensions of the result
  size_t output_rank = 0;

  bool empty() const noexcept;  // the result has no element
};

// "[2,3,4]", for messages.
std::string DimsText(std::span<const int64_t> dims);

// `a` and `b` are the dimensions of the inputs. Writes `shape`; on error the message names both
// shapes.
Status ResolveMatMul(std::span<const int64_t> a, std::span<const int64_t> b, MatMulShape& shape);

}  // namespace tunableop
