#include "tuner/machine_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tunableop {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

}  // namespace

MachineWatch::MachineWatch(MakeSensors make, int64_t interval_ms, NowFn now)
    : make_(std::move(make)),
      interval_ns_(std::max<int64_t>(0, interval_ms) * kNsPerMs),
      now_(now ? std::move(now) : NowFn(SteadyNow)) {}

const Sensors* MachineWatch::sensors() const {
  std::call_once(made_, [this] {
    if (make_) sensors_ = make_();
  });
  return sensors_.get();
}

bool MachineWatch::Poll(bool idle) {
  const Sensors* const sensors = this->sensors();
  if (sensors == nullptr) return false;
  const int64_t now = now_();
  {
    const std::lock_guard lock(mutex_);
    if (read_at_ && now - *read_at_ < interval_ns_) return false;
    read_at_ = now;  // before reading: one thread reads at a time
  }
  MachineState read = sensors->Read();
  const std::lock_guard lock(mutex_);
  state_.temperature_c = read.temperature_c;
  state_.memory_fragmentation = read.memory_fragmentation;
  state_.power_w = read.power_w;
  state_.free_memory_bytes = read.free_memory_bytes;
  state_.throttled = std::move(read.throttled);
  if (fed_ || idle) return true;
  state_.clock_mhz = read.clock_mhz;
  if (read.clock_mhz) Remember(*read.clock_mhz);
  return true;
}

void MachineWatch::FeedClock(double mhz) {
  if (!std::isfinite(mhz) || mhz <= 0.0) return;
  const std::lock_guard lock(mutex_);
  // The two sources differ by more than a drop: one is never compared with the other.
  if (!fed_) clocks_seen_ = 0;
  fed_ = true;
  state_.clock_mhz = mhz;
  Remember(mhz);
}

MachineState MachineWatch::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

int MachineWatch::low_clock_readings(std::optional<double> reference_mhz, double drop) const {
  if (!reference_mhz) return 0;
  const double low = *reference_mhz * (1.0 - drop);
  const std::lock_guard lock(mutex_);
  const size_t known = std::min(clocks_seen_, kRemembered);
  size_t count = 0;
  while (count < known && clocks_[(clocks_seen_ - 1 - count) % kRemembered] < low) ++count;
  return static_cast<int>(count);
}

std::vector<std::string> MachineWatch::Missing() const {
  const Sensors* const sensors = this->sensors();
  return sensors == nullptr ? std::vector<std::string>() : sensors->Missing();
}

void MachineWatch::Remember(double mhz) {
  clocks_[clocks_seen_ % kRemembered] = mhz;
  ++clocks_seen_;
}

}  // namespace tunableop
