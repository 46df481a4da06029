// Which kernels a session would run now, as far as a captured graph has to know: it keeps those of
// its capture.
#pragma once

#include <cstdint>

namespace tunableop {

struct ChoiceState {
  uint64_t changes = 0;  // grows when a choice changes
  uint64_t denials = 0;  // grows when a kernel that serves loses its place: it must not run again
  bool settled = true;   // nothing waits to be measured that may soon change one
};

}  // namespace tunableop
