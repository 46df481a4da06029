// Where destroyed handles and descriptors stay for a while, so that a call with one is an error
// and not a crash of the simulation. Thread-safe.
#pragma once

#include <memory>

#include "core/error.h"

namespace simgpu {

SIM_API void Bury(std::shared_ptr<void> object);

}  // namespace simgpu
