// Activations as one kernel: the ones that are written in elementwise operators, and those with a
// bias before or a factor behind.
#pragma once

#include "provider/fusion/fusion.h"

namespace tunableop {

Fusion GatedActivationFusion() noexcept;
Fusion BiasActivationFusion() noexcept;
Fusion ActivationFusion() noexcept;

}  // namespace tunableop
