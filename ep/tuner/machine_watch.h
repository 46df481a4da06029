// The state of the machine as it was last read, and whether its clock is low for good.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tuner/clock.h"
#include "tuner/sensors.h"

namespace tunableop {

// Thread-safe. What a background thread does with it:
//
//   if (watch.Poll(idle)) {
//     for each choice: WhyStale(rules, measured, watch.state(),
//                               watch.low_clock_readings(measured.machine.clock_mhz))
//   }
class MachineWatch {
 public:
  using MakeSensors = std::function<std::unique_ptr<Sensors>()>;
  // `make` is called when sensors are first needed, since a vendor's take 20 ms to begin with. It,
  // or what it makes, may be nullptr: then only FeedClock says anything. `now`: empty for the
  // steady clock. Reads at most once in `interval_ms`.
  explicit MachineWatch(MakeSensors make, int64_t interval_ms = 1000, NowFn now = {});

  // Reads the sensors when it is time; true when it did. Up to milliseconds; other threads are not
  // held up meanwhile. `idle`: nothing ran since the last call. An idle device lowers its clock, so
  // that such a reading says nothing and is left out; state() then shows the clock before.
  bool Poll(bool idle = false);

  // A clock that was measured rather than read (TuneResult::clock_mhz), for machines that report
  // none, or one that is always the same. From then on it takes the place of the sensors' reading;
  // each call counts as one reading. Feed before the first choice is measured or not at all: clocks
  // of different sources do not compare. Not positive, or not finite: ignored.
  void FeedClock(double mhz);

  // As of the last Poll that read, and the last FeedClock; nothing before.
  MachineState state() const;

  // How many readings of the clock in a row, the latest last, were below (1 - drop) of
  // `reference_mhz`; at most kRemembered. 0 without a reference or a reading.
  int low_clock_readings(std::optional<double> reference_mhz, double drop = 0.10) const;

  // Sensors' reasons for what is missing (sensors.h); empty without sensors.
  std::vector<std::string> Missing() const;

  // Enough for every choice, whatever clock it was measured at, to see that the clock stays low.
  static constexpr size_t kRemembered = 16;

 private:
  void Remember(double mhz);
  const Sensors* sensors() const;

  const MakeSensors make_;
  mutable std::once_flag made_;
  mutable std::unique_ptr<const Sensors> sensors_;  // by sensors() alone
  const int64_t interval_ns_;
  const NowFn now_;

  mutable std::mutex mutex_;  // held for copies only, never while sensors are read
  std::optional<int64_t> read_at_;
  MachineState state_;
  bool fed_ = false;
  std::array<double, kRemembered> clocks_ = {};  // a ring
  size_t clocks_seen_ = 0;
};

}  // namespace tunableop
