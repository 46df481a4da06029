// Attention in one kernel: nothing is transposed in memory, and there is no matrix of scores.
#pragma once

#include "provider/fusion/fusion.h"

namespace tunableop {

Fusion AttentionFusion() noexcept;
// Of floats, which it rounds to tf32.
Fusion AttentionTf32Fusion() noexcept;
// Where there is no such kernel: products apart, or, where that is measured to be faster, the
// kernel that needs no tensor cores.
Fusion AttentionApartFusion() noexcept;

}  // namespace tunableop
