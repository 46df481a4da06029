// Attention in one kernel: nothing is transposed in memory, and there is no matrix of scores.
#pragma once

#include "provider/fusion/fusion.h"

namespace tunableop {

Fusion AttentionFusion() noexcept;

}  // namespace tunableop
