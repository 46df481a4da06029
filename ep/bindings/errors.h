// A Status as a Python exception.
#pragma once

#include "gemm/status.h"

namespace tunableop::bindings {

// Raises the Python exception that fits the code: ValueError (invalid argument, damaged data),
// FileNotFoundError, NotImplementedError, MemoryError, OSError, RuntimeError.
void ThrowIfError(const Status& status);

}  // namespace tunableop::bindings
