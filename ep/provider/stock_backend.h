// The stock CPU provider's own kernel as a library of one candidate: a nested session of a single
// node. For measuring only; a call costs what a session run costs, which is measured once and taken
// off the time by the caller through OverheadMs().
#pragma once

#include <memory>

#include "gemm/backend.h"

namespace tunableop {

class StockBackend : public Backend {
 public:
  // Milliseconds that a run of a nested session takes beside the kernel, measured with a node that
  // does nothing (the median of many). Thread-safe; measured at the first call.
  virtual double OverheadMs() const = 0;
};

// Library "stock", kernel "CPUExecutionProvider". Prepare makes the session, its weight included
// (a copy, unpacked if need be): kOutOfMemory when weight and packed copy would exceed `max_bytes`,
// kNotSupported for a problem that one MatMul or Gemm node cannot express. The session has
// Problem::threads threads, which sleep between runs.
std::shared_ptr<const StockBackend> MakeStockBackend(size_t max_bytes);

}  // namespace tunableop
