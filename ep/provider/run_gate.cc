#include "provider/run_gate.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "provider/per_process.h"
#include "tuner/clock.h"

namespace tunableop {
namespace {

// ONNX Runtime's threads spin for about a millisecond after a run before they sleep.
constexpr int64_t kQuietNs = 2'000'000;
constexpr auto kLook = std::chrono::microseconds(500);
constexpr int64_t kLoadIntervalNs = 100'000'000;
// An older reading says nothing of the load now.
constexpr int64_t kOldLoadNs = 10 * kLoadIntervalNs;
constexpr double kTicksPerSecond = 100.0;  // USER_HZ, the unit of /proc/stat on Linux

// Idle time of all cores since boot, in USER_HZ ticks; below 0 where the system does not say.
double IdleTicks() noexcept {
  std::array<char, 256> line{};
  {
    const int file = ::open("/proc/stat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1.0;
    const ssize_t size = ::read(file, line.data(), line.size() - 1);
    ::close(file);
    if (size <= 0) return -1.0;
  }
  // "cpu  user nice system idle ..."
  const char* at = line.data();
  if (std::strncmp(at, "cpu ", 4) != 0) return -1.0;
  at += 4;
  double value = -1.0;
  for (int field = 0; field < 4; ++field) {
    char* end = nullptr;
    value = std::strtod(at, &end);
    if (end == at) return -1.0;
    at = end;
  }
  return value;
}

}  // namespace

void RunGate::Started() noexcept {
  in_flight_.fetch_add(1, std::memory_order_acq_rel);
  started_.fetch_add(1, std::memory_order_acq_rel);
}

void RunGate::Ended() noexcept {
  last_end_ns_.store(SteadyNow(), std::memory_order_relaxed);
  in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

int64_t RunGate::IdleNs() const noexcept {
  if (in_flight() > 0) return 0;
  return SteadyNow() - last_end_ns_.load(std::memory_order_relaxed);
}

RunGate& Runs() {
  // Never destroyed: sessions may outlive static destruction at process exit.
  static auto& gate = *new PerProcess<RunGate>;
  return *gate;
}

double IdleCores() noexcept {
  static std::mutex mutex;
  static int64_t read_at = 0;
  static double ticks = -1.0;
  static double cores = 0.0;
  {
    const std::lock_guard lock(mutex);
    if (read_at != 0 && SteadyNow() - read_at < kLoadIntervalNs) return cores;
  }
  const double now_ticks = IdleTicks();  // a file is read: not while others wait for the lock
  const std::lock_guard lock(mutex);
  const int64_t now = SteadyNow();
  if (read_at != 0 && now - read_at < kLoadIntervalNs) return cores;  // another thread was faster
  const double before = now - read_at > kOldLoadNs ? -1.0 : ticks;
  const double seconds = static_cast<double>(now - read_at) * 1e-9;
  ticks = now_ticks;
  cores = before < 0.0 || ticks < 0.0 ? 0.0 : (ticks - before) / kTicksPerSecond / seconds;
  read_at = now;
  return cores;
}

bool IdlePacer::WaitForTurn() noexcept {
  const int64_t begin = SteadyNow();
  bool come = false;
  while (!stop_.load(std::memory_order_acquire)) {
    turn_ = Runs().started();
    const bool quiet = Runs().IdleNs() >= kQuietNs;
    // A core more than the measurement takes: the runs may be about to need what they leave idle.
    come = quiet || (threads_.has_value() && IdleCores() >= *threads_ + 1);
    beside_runs_ = !quiet;
    if (come || (begun_ && SteadyNow() - begin > kPatienceNs)) break;
    std::this_thread::sleep_for(kLook);
  }
  waited_ns_ += SteadyNow() - begin;
  begun_ = begun_ || come;
  return come;
}

bool IdlePacer::Disturbed() const noexcept {
  if (beside_runs_) return false;
  return Runs().in_flight() > 0 || Runs().started() != turn_;
}

}  // namespace tunableop
