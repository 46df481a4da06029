// Reading matrix elements of any type and layout as doubles. For references, not for kernels.
#pragma once

#include <cstdint>

#include "gemm/backend.h"
#include "gemm/problem.h"

namespace tunableop {

// Element `index` of an array of `type`.
double LoadElement(const void* data, DataType type, int64_t index) noexcept;

// Elements [begin, begin + count) of such an array into out.
void LoadElements(const void* data, DataType type, int64_t begin, int64_t count,
                  double* out) noexcept;

// op(A[batch])[row, 0..k) into out[0..k).
void LoadRowOfA(const Problem& problem, const Operands& operands, int64_t batch, int64_t row,
                double* out) noexcept;

// op(B[batch])[k0..k1, j0..j1) into out, row-major, (j1 - j0) wide. Plain or packed.
void LoadPanelOfB(const Problem& problem, const Operands& operands, int64_t batch, int64_t k0,
                  int64_t k1, int64_t j0, int64_t j1, double* out) noexcept;

// Operands too small to be normal numbers may be taken as zero: ONNX Runtime sets processors so on
// request (session.set_denormal_as_zero), and not on every thread. What they contribute may be
// there or not.
struct Subnormals {
  double below;   // magnitudes under it are subnormal
  double factor;  // makes the tolerance as large as their whole contribution

  double Weigh(double magnitude) const noexcept {
    return magnitude < below ? magnitude * factor : magnitude;
  }
};

// Sum of the squares of op(A[batch])[row, :]. With skip > 1: an estimate from every skip-th piece
// of 64 elements, times 4. Subnormal elements are weighed.
double SumOfSquaresOfA(const Problem& problem, const Operands& operands, int64_t batch, int64_t row,
                       int64_t skip, Subnormals subnormals) noexcept;

// Unit roundoff (half the distance from 1 to the next number).
double UnitRoundoff(DataType type) noexcept;
// The largest finite value and the smallest normal one.
double LargestValue(DataType type) noexcept;
double SmallestNormal(DataType type) noexcept;
// What products are summed in: fp64 for fp64, fp32 for everything else.
DataType AccumulatorOf(const Problem& problem) noexcept;

}  // namespace tunableop
