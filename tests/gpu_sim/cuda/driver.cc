// libcuda: what names a card, and code that is loaded on one.
#include <cstdio>

#include "core/card.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/modules.h"
#include "core/vendor_error.h"

using simgpu::VendorError;

namespace {

constexpr int kInvalidContext = 201;

// Unlike the runtime's functions, these bring no context to a thread that has none.
template <typename Function>
int InContext(Function function) {
  return simgpu::HasContext() ? VendorError(function()) : kInvalidContext;
}

}  // namespace

extern "C" {

SIM_API int cuInit(unsigned) { return simgpu::FaultOn("no_driver") ? 100 : 0; }

SIM_API int cuDeviceGet(int* device, int ordinal) {
  if (simgpu::NameOf(ordinal) == nullptr) return 101;
  *device = ordinal;
  return 0;
}

SIM_API int cuDeviceGetName(char* name, int length, int device) {
  const char* const found = simgpu::NameOf(device);
  if (found == nullptr || length <= 0) return found == nullptr ? 101 : 1;
  std::snprintf(name, static_cast<size_t>(length), "%s", found);
  return 0;
}

SIM_API int cuModuleLoadData(void** module, const void* image) {
  return InContext([&] { return simgpu::LoadModule(image, module); });
}
SIM_API int cuModuleUnload(void* module) {
  return InContext([&] { return simgpu::UnloadModule(module); });
}
SIM_API int cuModuleGetFunction(void** function, void* module, const char* name) {
  return InContext([&] { return simgpu::FindFunction(module, name, function); });
}
SIM_API int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                           void* stream, void** parameters, void**) {
  return InContext([&] {
    return simgpu::LaunchFunction(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
                                  stream, parameters);
  });
}

}  // extern "C"
