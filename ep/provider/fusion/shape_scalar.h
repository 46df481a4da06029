// A number that is made of a shape, and what it is applied to: see shape_scalar_match.h.
#pragma once

#include "provider/fusion/fusion.h"

namespace tunableop {

Fusion ShapeScalarFusion() noexcept;

}  // namespace tunableop
