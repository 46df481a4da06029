// The stock CPU provider's own kernel as a library of one candidate: a nested session of a single
// node. For measuring only; a call costs what a session run costs, which is measured once and taken
// off the time by the caller through OverheadMs().
#pragma once

#include <memory>

#include "gemm/backend.h"
#include "tuner/pacer.h"

namespace tunableop {

class StockBackend : public Backend {
 public:
  // Milliseconds that a run of a nested session takes beside the kernel, measured with a node that
  // does next to nothing on one thread (the median of many): to be subtracted from what a call of
  // Plan::Run took. 0 when it could not be measured. With more than one thread a call also wakes
  // the session's threads, which sleep between runs so that they disturb nobody else; that is not
  // in here, and a session of many nodes pays it once, not at every node. Thread-safe; measured at
  // the first call (a few milliseconds).
  virtual double OverheadMs() const = 0;

  // Milliseconds of one call as in a session that does nothing else, its overhead taken off: the
  // median of calls one after another, for `budget_ms` in all (one call at least, 1000 at most).
  //
  // With one thread a race that takes turns with other kernels says the same. With several it does
  // not: the threads of one pool spin for 25 to 35 ms after their last work, on the cores that the
  // other pool wants, and those of a Plan sleep between calls and wake too late (measured with two
  // threads and 128x768x768 on a busy machine: 0.91 ms a call, 0.49 ms with threads that spin). So
  // this waits until other pools have come to rest (60 ms, with several threads only), calls with
  // threads that spin, and ends them. Takes as much memory as a Plan, besides those that there are.
  // Writes to operands.c, with beta again and again. Before each call it waits for its turn, if
  // there is a `pacer`. Errors are those of Prepare and Run, and kCancelled. Blocks; thread-safe.
  virtual Result<double> AloneMs(const Problem& problem, const Operands& operands, double budget_ms,
                                 Pacer* pacer = nullptr) const = 0;
};

// Library "stock", kernel "CPUExecutionProvider". Prepare only looks whether one MatMul or Gemm
// node can express the problem: kNotSupported when it cannot (fp32 only; epilogues other than a
// bias, a bias beside beta, gaps in a leading dimension or between batch items, Gemm in batches,
// empty matrices), kOutOfMemory when the copies of a constant B would exceed `max_bytes`: an
// unpacked one if it comes packed, one that ONNX Runtime makes while it packs and then frees, and
// its packed one.
//
// A Plan differs from what gemm/backend.h promises: its first Run makes the session, of
// Problem::threads threads, with the constant B of its operands: that call takes many times longer
// and is not to be timed. Later Runs must bring the same B with the same content at the same
// address (when it is not packed, the session reads it there), and the same alpha and beta; with
// another address or scalar the session is made anew. Runs take a lock: two at once wait for each
// other. The executor is not used. With beta, C is the node's third input, which the stock kernel
// copies before it adds: part of its time. All errors of ONNX Runtime come back as kInternal.
std::shared_ptr<const StockBackend> MakeStockBackend(size_t max_bytes);

}  // namespace tunableop
