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

constexpr auto kHeldLook = std::chrono::microseconds(200);
constexpr int64_t kLoadIntervalNs = 100'000'000;
// An older reading says nothing of the load now.
constexpr int64_t kOldLoadNs = 10 * kLoadIntervalNs;
constexpr double kTicksPerSecond = 100.0;  // USER_HZ, the unit of /proc/stat on Linux

// Runs that this thread is in: an operator may run a session of its own.
thread_local int runs_of_thread = 0;

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

bool RunGate::held() const noexcept {
  const int64_t until = held_until_ns_.load();
  return until != 0 && SteadyNow() < until;
}

void RunGate::Started() noexcept {
  for (;;) {
    while (runs_of_thread == 0 && held()) std::this_thread::sleep_for(kHeldLook);
    // First counted, then looked again: of a run and a hold that begin at the same moment one sees
    // the other.
    in_flight_.fetch_add(1);
    if (runs_of_thread > 0 || !held()) break;
    in_flight_.fetch_sub(1);
  }
  ++runs_of_thread;
  started_.fetch_add(1, std::memory_order_acq_rel);
}

void RunGate::Ended() noexcept {
  if (runs_of_thread > 0) --runs_of_thread;
  last_end_ns_.store(SteadyNow(), std::memory_order_relaxed);
  in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

bool RunGate::TryHold(int64_t until_ns) noexcept {
  int64_t next = next_hold_ns_.load();
  // Taken until the hold's own end, should EndHold never come.
  if (SteadyNow() < next || !next_hold_ns_.compare_exchange_strong(next, until_ns)) return false;
  held_until_ns_.store(until_ns);
  return true;
}

void RunGate::HoldUntil(int64_t until_ns) noexcept {
  next_hold_ns_.store(until_ns);
  held_until_ns_.store(until_ns);
}

void RunGate::EndHold(int64_t next_ns) noexcept {
  held_until_ns_.store(0);
  next_hold_ns_.store(next_ns);
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

}  // namespace tunableop
