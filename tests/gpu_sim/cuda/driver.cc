// libcuda: only what names a card.
#include <cstdio>

#include "core/card.h"
#include "core/error.h"
#include "core/faults.h"

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

}  // extern "C"
