// What a session's groups of nodes will run on.
#pragma once

#include <string>

#include "gemm/problem.h"

namespace tunableop {

struct FusionPlace {
  std::string arch;  // of the card: "sm_90", "gfx942"
  Precision precision = Precision::kExact;
};

}  // namespace tunableop
