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

// Nothing: it still holds. Else why not, in one line ("52 C, measured at 40 C"). Hysteresis: the
// time to live doubles with each confirmation, up to 16 times; a low clock counts only when it was
// low in `low_clock_readings` readings in a row, 3 at least (a clock that returns is no reason).
std::optional<std::string> WhyStale(const StalenessRules& rules, const MeasuredState& measured,
                                    const MachineState& now, int low_clock_readings);

}  // namespace tunableop
