// Norms of rows as one kernel: of a sum, which is handed out too where others read it, and of one
// value where the norm itself is written in elementwise operators.
#pragma once

#include "provider/fusion/fusion.h"

namespace tunableop {

Fusion ResidualNormFusion() noexcept;  // Add, then a norm of either form
Fusion NormChainFusion() noexcept;

}  // namespace tunableop
