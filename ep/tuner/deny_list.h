// Kernels that must not run in this process, whatever the problem and whoever asks: they gave a
// wrong answer, hung, or killed a process before this one.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gemm/backend.h"

namespace tunableop {

struct Denial {
  Candidate candidate;
  std::string identity;  // Backend::identity() of the library build that it holds for
  std::string reason;
};

// Denies every candidate of this library, name and identity from now on; the first reason stays,
// and nothing takes it back. Thread-safe.
void Deny(const Candidate& candidate, const std::string& identity, const std::string& reason);

// Why the candidate is denied in the build `identity`; nothing when it is not. Takes no lock while
// nobody is denied. Thread-safe.
std::optional<std::string> DenialOf(const Candidate& candidate, const std::string& identity);
// The same for any build: for who has only a name. A process has one build of each library, so that
// this is the same, as long as only denials of that build are entered. Thread-safe.
std::optional<std::string> DenialOf(const Candidate& candidate);

// All of them, to be saved. Thread-safe.
std::vector<Denial> Denials();

namespace internal {
inline std::atomic<uint64_t> denial_count{0};
}  // namespace internal

// How many are denied: grows when what was decided before has to be looked at again. One load, for
// the hot path.
inline uint64_t DenialCount() noexcept {
  return internal::denial_count.load(std::memory_order_acquire);
}

}  // namespace tunableop
