// libamdhip64: code that is loaded on a card.
#include "core/modules.h"
#include "core/vendor_error.h"

using simgpu::Returned;

extern "C" {

SIM_API int hipModuleLoadData(void** module, const void* image) {
  return Returned(simgpu::LoadModule(image, module));
}
SIM_API int hipModuleUnload(void* module) { return Returned(simgpu::UnloadModule(module)); }
SIM_API int hipModuleGetFunction(void** function, void* module, const char* name) {
  return Returned(simgpu::FindFunction(module, name, function));
}
SIM_API int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                                  void* stream, void** parameters, void**) {
  return Returned(simgpu::LaunchFunction(function, {grid_x, grid_y, grid_z},
                                         {block_x, block_y, block_z}, stream, parameters));
}

}  // extern "C"
