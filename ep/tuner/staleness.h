// When a choice has to be measured again, and when that would only flap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tuner/sensors.h"

namespace tunableop {

struct StalenessRules {
  int64_t time_to_live_ms = 300'000;  // 0: never by age
  double temperature_step_c = 10.0;
  double clock_drop = 0.10;  // share of the clock at measuring
  double fragmentation = 0.30;
};

// What is known of one choice.
struct MeasuredState {
  int64_t age_ms = 0;     // since it was measured or confirmed
  MachineState machine;   // at that moment
  int confirmations = 0;  // measurements in a row that left the winner as it was
};

// A low clock that was read this often in a row will not return by itself.
inline constexpr int kLowClockReadings = 3;

// Nothing: it still holds. Else why not, in one line ("52 C, measured at 40 C"). A reading that is
// missing, then or now, is never a reason.
//
// Hysteresis, so that a machine that swings is not measured at each swing:
//  - the time to live doubles with each confirmation, up to 16 times;
//  - a choice once confirmed rests: no state of the machine makes it stale in the first tenth of
//    its time to live (with time_to_live_ms 0: of 300 s, doubled alike);
//  - a low clock counts only when it was low in `low_clock_readings` readings in a row,
//    kLowClockReadings at least (a clock that returns is no reason);
//  - memory counts as fragmented only for a choice measured when it was not: measuring again mends
//    no memory.
std::optional<std::string> WhyStale(const StalenessRules& rules, const MeasuredState& measured,
                                    const MachineState& now, int low_clock_readings);

// time_to_live_ms, doubled with each confirmation; 0: never by age.
int64_t TimeToLive(const StalenessRules& rules, int confirmations) noexcept;

}  // namespace tunableop
