#include "provider/kernels/gemm_addend.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "gemm/device_queue.h"
#include "provider/kernels/matmul_shape.h"

namespace tunableop {
namespace {

struct Fill {
  const float* c;
  int64_t row_stride;
  int64_t column_stride;
  float beta;
  float* y;
  int64_t m;
  int64_t n;
  int64_t rows_per_task;

  static void Task(void* context, size_t index) {
    const Fill& fill = *static_cast<const Fill*>(context);
    const int64_t first = static_cast<int64_t>(index) * fill.rows_per_task;
    const int64_t last = std::min(fill.m, first + fill.rows_per_task);
    for (int64_t row = first; row < last; ++row) fill.Row(row);
  }

  void Row(int64_t row) const {
    const float* source = c + row * row_stride;
    float* target = y + row * n;
    if (column_stride == 0) {
      std::fill_n(target, n, beta * *source);
    } else if (beta == 1.0F) {
      std::memmove(target, source, static_cast<size_t>(n) * sizeof(float));  // C may be the result
    } else {
      for (int64_t column = 0; column < n; ++column) target[column] = beta * source[column];
    }
  }
};

// A task moves about this many floats, so that small results stay on the calling thread.
constexpr int64_t kFillFloatsPerTask = 65536;

// c = column * row, m x n, dense. One of them is ones, so that the other is copied as it is: it is
// no operand of the product that may be rounded where the user allows less precision.
Status Outer(const void* column, const void* row, void* c, int64_t m, int64_t n,
             const Problem& like, SessionState& state, GemmNode& node, Executor& executor) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = 1;
  // One column lies as one row does; as a row it has a leading dimension that fits more kernels.
  problem.trans_a = 1;
  problem.lda = m;
  problem.ldb = n;
  problem.ldc = n;
  problem.a_type = like.a_type;
  problem.b_type = like.b_type;
  problem.c_type = like.c_type;
  problem.threads = like.threads;
  problem.align_a = AlignmentClass(column);
  problem.align_b = AlignmentClass(row);
  problem.align_c = AlignmentClass(c);
  Operands operands;
  operands.a = column;
  operands.b = row;
  operands.c = c;
  return state.Run(problem, operands, executor, node);
}

}  // namespace

Result<Addend> ResolveAddend(const TensorView& c, int64_t m, int64_t n) {
  const size_t rank = c.dims.size();
  const int64_t columns = rank > 0 ? c.dims[rank - 1] : 1;
  const int64_t rows = rank > 1 ? c.dims[rank - 2] : 1;
  if (rank > 2 || (columns != 1 && columns != n) || (rows != 1 && rows != m)) {
    return Status(StatusCode::kInvalidArgument, "Gemm: C " + DimsText(c.dims) +
                                                    " does not broadcast to " +
                                                    DimsText(std::array<int64_t, 2>{m, n}));
  }
  return Addend{c.data, rows, columns};
}

void LayUnder(const Addend& c, float beta, float* y, int64_t m, int64_t n, Executor& executor) {
  const int64_t rows = std::max<int64_t>(1, kFillFloatsPerTask / n);
  Fill fill{static_cast<const float*>(c.data),
            c.rows == 1 ? 0 : c.columns,
            c.columns == 1 ? 0 : 1,
            beta,
            y,
            m,
            n,
            rows};
  executor.ParallelFor(static_cast<size_t>((m + rows - 1) / rows), &Fill::Task, &fill);
}

Status LayUnderOnCard(const Addend& c, void* y, const Problem& like, GpuSession& gpu,
                      SessionState& state, GemmNode& node, Executor& executor) {
  const int64_t m = like.m;
  const int64_t n = like.n;
  Result<const void*> ones = gpu.Ones(like.c_type, std::max(m, n), executor.queue()->stream());
  if (!ones.ok()) return ones.TakeStatus();
  if (c.is_row(n)) {
    return Outer(ones.value(), c.data, y, m, n, like, state, node, executor);
  }
  if (c.rows == m) {
    return Outer(c.data, ones.value(), y, m, n, like, state, node, executor);
  }
  // One number: a row of it first, which then serves the others.
  TUNABLEOP_RETURN_IF_ERROR(Outer(c.data, ones.value(), y, 1, n, like, state, node, executor));
  if (m == 1) return Status::Ok();
  auto* second = static_cast<std::byte*>(y) + static_cast<size_t>(n) * SizeOf(like.c_type);
  return Outer(ones.value(), y, second, m - 1, n, like, state, node, executor);
}

}  // namespace tunableop
