// The one table of patterns.
#pragma once

#include <span>

#include "provider/fusion/fusion.h"

namespace tunableop {

// In the order in which they are looked for: the ones that take more come first.
std::span<const Fusion> Fusions() noexcept;

}  // namespace tunableop
