// Operands in the memory of a card that outlive the call they come from.
#pragma once

#include <cstddef>
#include <memory>

#include "gemm/backend.h"
#include "gemm/device.h"
#include "gemm/device_queue.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/owned_operands.h"

namespace tunableop {

// Copies with the strides and alignment classes of the originals, queued behind what makes these:
// they are there once what is queued at return is done. Everything is copied, constants too, which
// may be freed before what is measured in the background has ended. kOutOfMemory: more than
// `max_bytes`, or no memory.
Result<OwnedOperands> CopyOnDevice(const Problem& problem, const Operands& operands,
                                   const DeviceQueue& queue, size_t max_bytes);

// The same of operands in the host's memory; waits until they are there.
Result<OwnedOperands> CopyToDevice(const Problem& problem, const Operands& operands,
                                   const std::shared_ptr<const Device>& device, size_t max_bytes);

}  // namespace tunableop
