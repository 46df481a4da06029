// The cards of this machine, and which GEMM libraries can run on each. One process-wide list, made
// at the first call from what the vendors' runtimes find, kept until the process ends. Thread-safe.
//
// Listing makes no context on a card: what a library can do there is asked when it is first used. A
// process must not be forked after the first call: no runtime of the
// vendors works in the child then.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/registry.h"
#include "gemm/backend.h"
#include "gemm/device.h"

namespace tunableop {

struct Gpu {
  std::shared_ptr<const Device> device;
  // The one that gives the default kernel first. One that turns out not to run on this card has no
  // candidates. Empty: no library can run on this card, and `reason` says why.
  std::vector<std::shared_ptr<const Backend>> backends;
  std::string reason;
};

// In the order of the runtimes: CUDA's cards, then HIP's.
std::span<const Gpu> Gpus();

// Makes a library of a Gpu ready for its card. Empty: it can run there; else why not.
std::string WhyNot(const Backend& backend);
// Makes the libraries of a card ready, one by one, until one can run on it. Empty: one can. Else
// why none can.
std::string WhyUnusable(const Gpu& gpu);

// One line for each runtime and library of both vendors, present or not: "libcudart",
// "libcublasLt", "libamdhip64", "libhipblaslt", "librocblas". `reason`: where it was looked for,
// what was wrong with what was found ("driver older than the runtime" ...). Makes the libraries
// ready that can only be asked on a card.
std::vector<LibraryState> GpuLibraries();

}  // namespace tunableop
