// The exact result of part of a GEMM, in double precision: what kernels are judged by.
//
// Small problems are computed whole. Of larger ones: rows (always the first and the last of the
// first and the last batch item, others at random) with all their columns, or, where even a row is
// too much, with the first and last columns and random blocks of them. Work is spread over the
// executor.
#pragma once

#include <cstdint>
#include <vector>

#include "gemm/backend.h"
#include "gemm/executor.h"
#include "gemm/problem.h"
#include "tuner/tolerance.h"

namespace tunableop {

// One element that was compared, for messages.
struct Place {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t column = 0;
};

class Reference {
 public:
  // `budget`: multiplications to spend, about (1e9 are about a second of one core). Throws
  // bad_alloc.
  Reference(const Problem& problem, const Operands& operands, Executor& executor, double budget);

  struct Outcome {
    double error = 0.0;  // the largest over all that was compared; <= 1 is right
    Place place;         // where
    double got = 0.0;
    double expected = 0.0;
    double tolerance = 0.0;
  };
  // Compares C, laid out as the problem says.
  Outcome Compare(const void* c) const noexcept;

  // sqrt(sum of squares) of the rows of op(A) and of the columns of op(B), for all batch items that
  // have their own: row_norms[item * m + i] * column_norms[item * n + j] bounds sum |a||b| (Cauchy
  // and Schwarz). For operands beyond the budget they are estimated from some of the terms, with a
  // factor of 2 in reserve.
  struct Norms {
    std::vector<double> rows;
    std::vector<double> columns;
  };
  static Norms ComputeNorms(const Problem& problem, const Operands& operands, Executor& executor,
                            double budget);

  size_t lines() const noexcept { return lines_.size(); }
  size_t columns() const noexcept { return columns_.size(); }

 private:
  struct Line {
    int64_t batch;
    int64_t row;
  };
  struct Work;

  void ChooseLines(double budget);
  void ChooseColumns(double budget);
  static void ComputeBlock(void* context, size_t index);
  void Finish(const Operands& operands) noexcept;

  Problem problem_;
  Tolerance tolerance_;
  std::vector<Line> lines_;       // sorted by batch item
  std::vector<int64_t> columns_;  // sorted
  // [line][column]. First sum a*b and sum |a||b|, in the end the expected value and its tolerance.
  std::vector<double> expected_;
  std::vector<double> allowed_;
};

}  // namespace tunableop
