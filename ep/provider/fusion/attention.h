// Attention in one kernel: nothing is transposed in memory, and there is no matrix of scores.
#pragma once

#include "provider/fusion/fusion.h"

namespace tunableop {

Fusion AttentionFusion() noexcept;
// Of floats, which it rounds to tf32.
Fusion AttentionTf32Fusion() noexcept;

}  // namespace tunableop
