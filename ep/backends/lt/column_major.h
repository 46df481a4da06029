// A Problem as the Lt libraries see it. They are column-major, and a row-major matrix is its own
// transpose to them: so they compute C^T = op(B)^T op(A)^T, with B first, and nothing is copied.
#pragma once

#include <cstdint>

#include "gemm/problem.h"
#include "gemm/status.h"

namespace tunableop::lt {

struct ColumnMajorMatrix {
  uint64_t rows = 0;  // as stored
  uint64_t columns = 0;
  int64_t ld = 0;
  int64_t stride = 0;  // elements between batch items; 0: one for all
  bool transposed = false;
  uint32_t align_bytes = 1;
};

struct ColumnMajorGemm {
  ColumnMajorMatrix first;   // made of B
  ColumnMajorMatrix second;  // made of A
  ColumnMajorMatrix out;     // C and D: one matrix
  int32_t batch = 1;
  DataType type = DataType::kFloat32;
  Precision precision = Precision::kExact;
  Epilogue epilogue = Epilogue::kNone;
  // One of each class: some kernels cannot do every beta.
  double alpha = 1.0;
  double beta = 0.0;
  bool reads_b_transposed = false;  // first is Operands::b_transposed
};

constexpr bool HasBias(Epilogue epilogue) noexcept {
  return epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasRelu ||
         epilogue == Epilogue::kBiasGelu;
}

// Of alpha and beta.
constexpr DataType ScaleTypeOf(DataType type) noexcept {
  return type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
}

// True: op(B)^T is worth offering, because B is kept and is not stored that way already.
bool CanReadTransposedB(const Problem& problem) noexcept;

// kNotSupported: what these libraries cannot do, in words. `reads_b_transposed`:
// Operands::b_transposed takes the place of B; needs CanReadTransposedB(). `max_stride`: the
// largest batch stride.
Result<ColumnMajorGemm> ToColumnMajor(const Problem& problem, bool reads_b_transposed,
                                      int64_t max_stride);

}  // namespace tunableop::lt
