// Kernels that gave a wrong answer in this process. None of them may run again, whatever the
// problem and whoever asks.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "gemm/backend.h"

namespace tunableop {

// Denies every candidate of this library and name from now on; the first reason stays. Thread-safe.
void Deny(const Candidate& candidate, const std::string& reason);

// Why the candidate is denied; nothing when it is not. Takes no lock while nobody is. Thread-safe.
std::optional<std::string> DenialOf(const Candidate& candidate);

namespace internal {
inline std::atomic<uint64_t> denial_count{0};
}  // namespace internal

// How many are denied: grows when what was decided before has to be looked at again. One load, for
// the hot path.
inline uint64_t DenialCount() noexcept {
  return internal::denial_count.load(std::memory_order_acquire);
}

}  // namespace tunableop
