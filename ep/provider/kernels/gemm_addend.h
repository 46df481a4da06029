// Gemm's C: what it is to the result, and how it gets under the product where no epilogue adds it.
#pragma once

#include <cstdint>

#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "provider/kernels/kernel.h"

namespace tunableop {

// C as a matrix: element (row, column) is at data + row * row_stride + column * column_stride.
struct Addend {
  const void* data = nullptr;
  int64_t rows = 1;     // 1: the same for all rows of the result
  int64_t columns = 1;  // 1: the same for all columns
  int64_t elements() const noexcept { return rows * columns; }
  // Whether it is one row of the result's width, or as large as the result.
  bool is_row(int64_t n) const noexcept { return rows == 1 && columns == n; }
  bool is_full(int64_t m, int64_t n) const noexcept { return rows == m && columns == n; }
};

// C must broadcast one way to m x n (ONNX: unidirectional).
Result<Addend> ResolveAddend(const TensorView& c, int64_t m, int64_t n);

// y = beta * C, m x n and dense, in the host's memory. C may be y itself.
void LayUnder(const Addend& c, float beta, float* y, int64_t m, int64_t n, Executor& executor);

// y = C on a card, for a C that is smaller than the result: as products with ones, which the
// session chooses kernels for like for any other. Without beta, whose product with C may be too
// large for a 16-bit type. `like` gives type and threads; y does not overlap C. Only queues work.
Status LayUnderOnCard(const Addend& c, void* y, const Problem& like, GpuSession& gpu,
                      SessionState& state, GemmNode& node, Executor& executor);

}  // namespace tunableop
