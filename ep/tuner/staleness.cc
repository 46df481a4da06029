#include "tuner/staleness.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace tunableop {
namespace {

constexpr int kMostDoublings = 4;  // 16 times
// What a rest is measured by when nothing gets stale by age.
constexpr int64_t kUsualTimeToLiveMs = 300'000;
constexpr int64_t kRestShare = 10;  // a tenth of the time to live

int64_t Doubled(int64_t ms, int times) noexcept {
  const int64_t factor = int64_t{1} << std::clamp(times, 0, kMostDoublings);
  return ms > std::numeric_limits<int64_t>::max() / factor ? std::numeric_limits<int64_t>::max()
                                                           : ms * factor;
}

int64_t RestMs(const StalenessRules& rules, int confirmations) noexcept {
  if (confirmations <= 0) return 0;
  const int64_t base = rules.time_to_live_ms > 0 ? rules.time_to_live_ms : kUsualTimeToLiveMs;
  return Doubled(base, confirmations) / kRestShare;
}

template <typename... Values>
std::string Line(const char* format, Values... values) {
  char text[160];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

}  // namespace

int64_t TimeToLive(const StalenessRules& rules, int confirmations) noexcept {
  return Doubled(std::max<int64_t>(0, rules.time_to_live_ms), confirmations);
}

std::optional<std::string> WhyStale(const StalenessRules& rules, const MeasuredState& measured,
                                    const MachineState& now, int low_clock_readings) {
  const int64_t time_to_live = TimeToLive(rules, measured.confirmations);
  if (time_to_live > 0 && measured.age_ms >= time_to_live) {
    return Line("measured %.0f s ago, holds for %.0f s", static_cast<double>(measured.age_ms) / 1e3,
                static_cast<double>(time_to_live) / 1e3);
  }
  if (measured.age_ms < RestMs(rules, measured.confirmations)) return std::nullopt;

  const MachineState& then = measured.machine;
  if (now.temperature_c && then.temperature_c &&
      std::fabs(*now.temperature_c - *then.temperature_c) >= rules.temperature_step_c) {
    return Line("%.0f C, measured at %.0f C", *now.temperature_c, *then.temperature_c);
  }
  if (now.clock_mhz && then.clock_mhz && low_clock_readings >= kLowClockReadings &&
      *now.clock_mhz < *then.clock_mhz * (1.0 - rules.clock_drop)) {
    return Line("%.0f MHz in %d readings, measured at %.0f MHz", *now.clock_mhz, low_clock_readings,
                *then.clock_mhz);
  }
  if (now.memory_fragmentation && then.memory_fragmentation &&
      *now.memory_fragmentation > rules.fragmentation &&
      *then.memory_fragmentation <= rules.fragmentation) {
    return Line("device memory is %.0f %% fragmented, %.0f %% when measured",
                *now.memory_fragmentation * 100.0, *then.memory_fragmentation * 100.0);
  }
  return std::nullopt;
}

}  // namespace tunableop
