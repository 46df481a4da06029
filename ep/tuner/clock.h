// Time as the tuner sees it, replaceable so that tests of its statistics need no real time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace tunableop {

// Nanoseconds since some fixed moment, never going back. Called between the calls that are timed.
using NowFn = std::function<int64_t()>;

inline int64_t SteadyNow() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tunableop
