// What the generated list of kernels of the host and its users agree on.
#pragma once

#include <span>
#include <string_view>

#include "kernels/host_module.h"

namespace tunableop::device {

struct HostFamily {
  std::string_view name;
  const HostEntry* (*entries)();
};

std::span<const HostFamily> HostFamilies();

}  // namespace tunableop::device
