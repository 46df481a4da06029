// Tune() for operands that lie in the memory of a card.
#pragma once

#include <memory>
#include <span>

#include "gemm/backend.h"
#include "gemm/device_queue.h"
#include "gemm/executor.h"
#include "gemm/problem.h"
#include "tuner/tuner.h"

namespace tunableop {

// As Tune() (tuner.h), with these differences.
// - `queue` is where the operands are made: what is queued there when this is called is waited for.
//   Measuring itself goes to a stream and a workspace of its own, so that a kernel that does not
//   end holds up nobody. Returns when all is done.
// - Times are the card's, between two events. options.cold_b: its caches are overwritten before
//   each timed call; a winner must not lose to the default in warm caches either (and the other
//   way round).
// - Candidates come from the libraries' lists first, then from Backend::Explore while there is
//   time. All are timed; those that race are verified (docs/tuning.md).
// - Answers are checked on the host, by `host`, against copies of the operands.
//   Where C or the operands are too large to be fetched, samples of them are, and `why` says so.
// - options.max_scratch_bytes holds for the card's memory and the host's, each, beside the
//   workspace; to overwrite a large cache, 1/64 of the card's memory may be taken. When the card
//   has too little, the default wins unmeasured and `why` says so.
// - While the stream of `queue` captures a graph, nothing is measured, and the default is returned.
// - options.spectator is ignored; there are no counters and no clock.
// - A kernel that does not end within options.hang_ms, or the time that a large product takes at
//   20 GFLOP/s, is denied, and its stream abandoned. After that, or when the card is lost
//   (Device::lost): kInternal.
Result<TuneResult> TuneOnDevice(const Problem& problem, const Operands& operands,
                                const DeviceQueue& queue, Executor& host,
                                std::span<const std::shared_ptr<const Backend>> backends,
                                const TunerOptions& options);

}  // namespace tunableop
