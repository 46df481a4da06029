#include "tuner/clock_probe.h"

#include <algorithm>
#include <cstdint>

#include "tuner/clock.h"

namespace tunableop {
namespace {

constexpr int kChains = 4;
constexpr int64_t kAdditions = 64;  // of a turn of the loop, whose counter runs beside the chain
constexpr int64_t kTurns = 1200;    // 25 us at 3 GHz
constexpr double kSteady = 0.01;

// False: not on this processor.
//
// Register to register: recent cores (Golden Cove and its successors) add constants while renaming,
// in no time at all.
bool RunChain() noexcept {
#if defined(__x86_64__)
  uint64_t sum = 0;
  uint64_t one = 1;
  for (int64_t i = 0; i < kTurns; ++i) {
    asm volatile(
        ".rept 64\n\t"
        "addq %1, %0\n\t"
        ".endr"
        : "+r"(sum)
        : "r"(one)
        : "cc");
  }
  return true;
#elif defined(__aarch64__)
  uint64_t sum = 0;
  uint64_t one = 1;
  for (int64_t i = 0; i < kTurns; ++i) {
    asm volatile(
        ".rept 64\n\t"
        "add %0, %0, %1\n\t"
        ".endr"
        : "+r"(sum)
        : "r"(one));
  }
  return true;
#else
  return false;
#endif
}

double Chain() noexcept {
  const int64_t begin = SteadyNow();
  if (!RunChain()) return 0.0;
  const int64_t ns = SteadyNow() - begin;
  return static_cast<double>(kTurns * kAdditions) * 1e3 /
         static_cast<double>(std::max<int64_t>(1, ns));
}

}  // namespace

double MeasureClockMhz() noexcept {
  double best = 0.0;
  for (int i = 0; i < kChains; ++i) best = std::max(best, Chain());
  return best;
}

void WarmUpClock(double max_ms) noexcept {
  const int64_t end = SteadyNow() + static_cast<int64_t>(std::clamp(max_ms, 0.0, 1e6) * 1e6);
  double best = 0.0;
  int steady = 0;
  constexpr int64_t kProbeNs = 200'000;
  while (steady < 3 && SteadyNow() + kProbeNs <= end) {
    const double mhz = MeasureClockMhz();
    if (mhz == 0.0) return;
    steady = mhz <= best * (1.0 + kSteady) ? steady + 1 : 0;
    best = std::max(best, mhz);
  }
}

}  // namespace tunableop
