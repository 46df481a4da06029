#include "backends/lt/column_major.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace tunableop::lt {
namespace {

Status Refuse(std::string reason) { return {StatusCode::kNotSupported, std::move(reason)}; }

Status Check(const Problem& p, int64_t max_stride) {
  if (p.b_layout != BLayout::kPlain) return Refuse("B is packed, and the library reads it plain");
  if (p.a_type != p.b_type || p.a_type != p.c_type) {
    return Refuse("A, B and C are of different types");
  }
  // k == 0 is no product, and libraries differ in what they make of it.
  if (p.m <= 0 || p.n <= 0 || p.k <= 0 || p.batch <= 0) return Refuse("the product is empty");
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  if (std::max({p.m, p.n, p.k, p.batch, p.lda, p.ldb, p.ldc}) > kMax) {
    return Refuse("a size is beyond 32 bits");
  }
  if (std::max({p.stride_a, p.stride_b, p.stride_c}) > max_stride) {
    return Refuse("a batch stride is beyond 32 bits");
  }
  // cublasLt 13.1 takes such a product and answers wrongly (an H200, all types, every kernel).
  if (p.batch > 1 && p.stride_c < (p.m - 1) * p.ldc + p.n) {
    return Refuse("the batch items of C lie among each other");
  }
  if (p.epilogue == Epilogue::kGelu || p.epilogue == Epilogue::kBiasGelu) {
    return Refuse("the library's GELU is the tanh approximation");
  }
  if (p.a_type == DataType::kFloat64 && p.epilogue != Epilogue::kNone) {
    return Refuse("there are no epilogues in fp64");
  }
  return Status::Ok();
}

double OneOf(ScalarClass scalar) {
  switch (scalar) {
    case ScalarClass::kZero:
      return 0.0;
    case ScalarClass::kOne:
      return 1.0;
    case ScalarClass::kOther:
      break;
  }
  return 0.5;
}

// A row-major matrix of `rows` x `columns`.
ColumnMajorMatrix Flipped(int64_t rows, int64_t columns, int64_t ld, int64_t stride,
                          bool transposed, uint8_t align) {
  ColumnMajorMatrix matrix;
  matrix.rows = static_cast<uint64_t>(columns);
  matrix.columns = static_cast<uint64_t>(rows);
  matrix.ld = ld;
  matrix.stride = stride;
  matrix.transposed = transposed;
  matrix.align_bytes = 1U << align;
  return matrix;
}

}  // namespace

bool CanReadTransposedB(const Problem& problem) noexcept {
  return problem.b_constant != 0 && problem.b_layout == BLayout::kPlain && problem.trans_b == 0;
}

Result<ColumnMajorGemm> ToColumnMajor(const Problem& problem, bool reads_b_transposed,
                                      int64_t max_stride) {
  Problem p = problem;
  if (reads_b_transposed) {
    if (!CanReadTransposedB(p)) return Refuse("there is no transposed copy of this B");
    p.trans_b = 1;
    p.ldb = p.k;
    p.stride_b = p.stride_b == 0 ? 0 : p.n * p.k;
    p.align_b = kMaxAlignmentLog2;  // the copy is memory of its own
  }
  TUNABLEOP_RETURN_IF_ERROR(Check(p, max_stride));

  ColumnMajorGemm gemm;
  gemm.first = p.trans_b != 0 ? Flipped(p.n, p.k, p.ldb, p.stride_b, true, p.align_b)
                              : Flipped(p.k, p.n, p.ldb, p.stride_b, false, p.align_b);
  gemm.second = p.trans_a != 0 ? Flipped(p.k, p.m, p.lda, p.stride_a, true, p.align_a)
                               : Flipped(p.m, p.k, p.lda, p.stride_a, false, p.align_a);
  gemm.out = Flipped(p.m, p.n, p.ldc, p.stride_c, false, p.align_c);
  gemm.batch = static_cast<int32_t>(p.batch);
  gemm.type = p.a_type;
  gemm.precision = p.precision;
  gemm.epilogue = p.epilogue;
  gemm.alpha = OneOf(p.alpha);
  gemm.beta = OneOf(p.beta);
  gemm.reads_b_transposed = reads_b_transposed;
  return gemm;
}

}  // namespace tunableop::lt
