// The time of day, for what is written down and read by other processes.
#pragma once

#include <chrono>
#include <cstdint>

namespace tunableop {

// Seconds since 1970, UTC. It may jump: nothing is measured with it.
inline int64_t UnixSeconds() noexcept {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace tunableop
