// Measures and checks the stock provider's kernel on random operands: for tests, and for a report
// on the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gemm/status.h"

namespace tunableop {

struct StockCheck {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  int64_t batch = 1;
  int64_t threads = 1;
  bool b_constant = false;
  bool packed = false;    // in the packed layout; implies b_constant
  bool shared_b = false;  // one B for the whole batch
  bool trans_a = false;
  bool trans_b = false;  // of a plain B
  bool bias = false;
  bool relu = false;  // an epilogue that one node cannot express
  float alpha = 1.0F;
  float beta = 0.0F;
  int64_t ldc_gap = 0;  // elements between rows of C, which one node cannot express either
  int64_t runs = 20;    // timed ones
  size_t max_bytes = 0;
};

struct StockFigures {
  double median_ms = 0.0;  // of a run, its overhead included
  double first_ms = 0.0;   // of the run that makes the session
  double alone_ms = 0.0;   // StockBackend::AloneMs
  double overhead_ms = 0.0;
  double max_difference = 0.0;  // |got - fp64 reference|, the largest
  std::string kernel;
  std::string identity;
};

// Errors are those of the stock backend; kInvalidArgument for sizes out of range.
Result<StockFigures> CheckStock(const StockCheck& check);

}  // namespace tunableop
