// The kernels that a simulated compiler can make: the project's, as functions of the host, and one
// family of this room's own, "sim", for tests of everything between a text and a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace simgpu {

struct Blocks {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

struct Kernel {
  void (*run)(const void* function, const void* args, Blocks grid) = nullptr;  // the whole grid
  const void* function = nullptr;                                              // for `run`
  size_t args_bytes = 0;                                                       // of its struct
};

// False: there is none.
SIM_API bool FindKernel(std::string_view family, std::string_view t0, std::string_view t1,
                        std::string_view entry, Kernel* kernel);
// Whether there is any kernel of the family for these types.
SIM_API bool HasModule(std::string_view family, std::string_view t0, std::string_view t1);

}  // namespace simgpu
