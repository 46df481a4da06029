// D = epilogue(alpha * A * B + beta * C) on the CPU, with any strides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "core/number.h"

namespace simgpu {

enum class Compute : uint8_t { kF32, kF64, kTf32, kBf16, kF16 };
enum class Activation : uint8_t { kNone, kRelu, kGelu };

// Element (row, column) of item b lies at row * row_stride + column * column_stride + b *
// batch_stride elements.
struct Matrix {
  char* data = nullptr;
  Type type = Type::kF32;
  int64_t row_stride = 1;
  int64_t column_stride = 0;
  int64_t batch_stride = 0;
};

struct Gemm {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  Matrix a;  // m x k
  Matrix b;  // k x n
  Matrix c;  // m x n
  Matrix d;  // m x n
  Compute compute = Compute::kF32;
  double alpha = 1;
  double beta = 0;
  Activation activation = Activation::kNone;
  Matrix bias;  // one value for each row: row_stride 1; data null: none
};

// How a kernel sums over k.
struct Summation {
  int splits = 1;
  // Where the splits' results lie until they are summed; null: in registers, so to speak.
  char* workspace = nullptr;
  Type partial = Type::kF32;    // the type in the workspace: rounds for good
  void (*between)() = nullptr;  // called once between writing to the workspace and reading from it
};

// Bytes of workspace that `splits` results take.
SIM_API size_t PartialBytes(const Gemm& gemm, const Summation& how);

void Run(const Gemm& gemm, const Summation& how);

// Bytes from the first to behind the last element that are touched.
size_t Extent(const Matrix& matrix, int64_t rows, int64_t columns, int64_t batch);

}  // namespace simgpu
