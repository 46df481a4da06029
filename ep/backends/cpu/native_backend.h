// The built-in kernels as a library: "native".
#pragma once

#include <memory>

#include "gemm/backend.h"

namespace tunableop {

// nullptr on a machine that none of the built-in kernels can run on.
std::shared_ptr<const Backend> MakeNativeBackend();

}  // namespace tunableop
