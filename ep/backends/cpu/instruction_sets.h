// Which of the built-in kernel sets this machine can run.
#pragma once

#include <span>
#include <string_view>

#include "backends/cpu/micro.h"

namespace tunableop::cpu {

// Best first; never empty on a supported architecture. Thread-safe, found once.
std::span<const MicroKernels* const> RunnableKernels() noexcept;

// nullptr: no such instruction set, or this machine lacks it.
const MicroKernels* FindKernels(std::string_view name) noexcept;

}  // namespace tunableop::cpu
