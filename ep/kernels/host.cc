#include "kernels/host.h"

#include "kernels/host_table.h"

namespace tunableop::device {

namespace {

// Null: there is none.
const HostEntry* Find(std::string_view family, std::string_view t0, std::string_view t1,
                      std::string_view entry) {
  for (const HostFamily& one : HostFamilies()) {
    if (one.name != family) continue;
    for (const HostEntry* at = one.entries(); at != nullptr; at = at->next) {
      if (at->name == entry && at->t0 == t0 && at->t1 == t1) return at;
    }
  }
  return nullptr;
}

}  // namespace

HostKernel FindHostKernel(std::string_view family, std::string_view t0, std::string_view t1,
                          std::string_view entry) {
  const HostEntry* found = Find(family, t0, t1, entry);
  return found != nullptr ? found->kernel : nullptr;
}

size_t HostKernelArgsBytes(std::string_view family, std::string_view t0, std::string_view t1,
                           std::string_view entry) {
  const HostEntry* found = Find(family, t0, t1, entry);
  return found != nullptr ? found->args_bytes : 0;
}

void RunHostKernel(HostKernel kernel, const void* args, HostGrid grid, uint32_t threads) {
  for (uint32_t z = 0; z < grid.z; ++z) {
    for (uint32_t y = 0; y < grid.y; ++y) {
      for (uint32_t x = 0; x < grid.x; ++x) RunHostBlock(kernel, args, grid, {x, y, z}, threads);
    }
  }
}

std::vector<HostKernelName> HostKernelNames() {
  std::vector<HostKernelName> names;
  for (const HostFamily& family : HostFamilies()) {
    for (const HostEntry* at = family.entries(); at != nullptr; at = at->next) {
      names.push_back({family.name, at->t0, at->t1, at->name});
    }
  }
  return names;
}

}  // namespace tunableop::device
