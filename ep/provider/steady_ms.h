// A clock that never goes back, in whole milliseconds.
#pragma once

#include <chrono>
#include <cstdint>

namespace tunableop {

inline int64_t SteadyMs() noexcept {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tunableop
