// A candidate library for tests, never in the wheel: kernels with one defect each, which a real
// session must neither elect nor be hurt by. FAULTY_KERNELS says which are there, by name, with
// commas in between.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "backends/external/candidate_library.h"
#include "memo.h"

namespace faulty {
namespace {

struct Call {
  const TunableOpGemm& gemm;
  const TunableOpOperands& operands;
  int64_t number;  // of this kernel, from 0

  float* c() const { return static_cast<float*>(operands.c); }
  int64_t size() const { return gemm.m * gemm.n; }
};

constexpr int kFailure = 3;
constexpr int64_t kLater = 20;      // calls before a defect that waits
constexpr int64_t kFastCalls = 50;  // of fast_then_slow

// Right, and faster than all others; what the defects stand on.
int Quick(const Call& call) {
  static auto& memo = *new Memo;
  memo.Run(call.gemm, call.operands);
  return 0;
}

void Spin(double ms) {
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(ms);
  while (std::chrono::steady_clock::now() < until) {
  }
}

// Honest work, element by element.
int Right(const Call& call) {
  const TunableOpGemm& g = call.gemm;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      float sum = 0.0F;
      for (int64_t p = 0; p < g.k; ++p) {
        sum +=
            TunableOpAtA(&g, &call.operands, 0, i, p) * TunableOpAtB(&g, &call.operands, 0, p, j);
      }
      call.c()[i * g.ldc + j] = TunableOpFinish(&g, &call.operands, 0, i, j, sum);
    }
  }
  return 0;
}

int WrongElement(const Call& call) {
  Quick(call);
  call.c()[call.size() / 2] += 1.0F;
  return 0;
}

// The slip of a kernel that was only tried on round sizes.
int WrongTail(const Call& call) {
  Quick(call);
  if (call.gemm.m % 16 != 0 || call.gemm.n % 16 != 0) call.c()[call.size() - 1] = 0.0F;
  return 0;
}

int NanOnNegative(const Call& call) {
  Quick(call);
  const auto* a = static_cast<const float*>(call.operands.a);
  for (int64_t i = 0; i < call.gemm.m * call.gemm.k; ++i) {
    if (a[i] >= 0.0F) continue;
    call.c()[i / call.gemm.k * call.gemm.n] = std::numeric_limits<float>::quiet_NaN();
    break;
  }
  return 0;
}

int BehindC(const Call& call) {
  Quick(call);
  call.c()[call.size()] = 1.0F;
  return 0;
}

int BeforeC(const Call& call) {
  Quick(call);
  call.c()[-1] = 1.0F;
  return 0;
}

int Slow(const Call& call) {
  Quick(call);
  Spin(5.0);
  return 0;
}

// Now and then as fast as can be, and slow on the whole: who goes by the best time falls for it.
int Noisy(const Call& call) {
  Quick(call);
  uint64_t x = static_cast<uint64_t>(call.number) * 0x9E3779B97F4A7C15U;
  x ^= x >> 29U;
  x *= 0xBF58476D1CE4E5B9U;
  x ^= x >> 32U;
  if (x % 8 != 0) Spin(2.0 * std::pow(10.0, static_cast<double>(x % 1000) / 1000.0));
  return 0;
}

int FastThenSlow(const Call& call) {
  Quick(call);
  if (call.number >= kFastCalls) Spin(5.0);
  return 0;
}

int Failing(const Call&) { return kFailure; }

int FailingLater(const Call& call) { return call.number < kLater ? Quick(call) : kFailure; }

int Hanging(const Call&) {
  while (true) pause();
}

int Crashing(const Call&) {
  // Not a constant, or the compiler would see what is coming.
  volatile float* volatile nowhere = nullptr;
  *nowhere = 1.0F;  // NOLINT(clang-analyzer-core.NullDereference)
  return 0;
}

int CrashingLater(const Call& call) { return call.number < kLater ? Quick(call) : Crashing(call); }

struct Kernel {
  const char* name;
  int (*run)(const Call&);
};

constexpr std::array<Kernel, 15> kKernels = {{
    {"quick", &Quick},
    {"right", &Right},
    {"wrong_element", &WrongElement},
    {"wrong_tail", &WrongTail},
    {"nan_on_negative", &NanOnNegative},
    {"out_of_bounds", &BehindC},
    {"out_of_bounds_before", &BeforeC},
    {"slow", &Slow},
    {"noisy", &Noisy},
    {"fast_then_slow", &FastThenSlow},
    {"failing", &Failing},
    {"failing_later", &FailingLater},
    {"hanging", &Hanging},
    {"crashing", &Crashing},
    {"crashing_later", &CrashingLater},
}};

std::vector<const Kernel*> Chosen() {
  std::vector<const Kernel*> chosen;
  const char* value = std::getenv("FAULTY_KERNELS");
  std::string_view rest = value != nullptr ? value : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    for (const Kernel& kernel : kKernels) {
      if (rest.substr(0, end) == kernel.name) chosen.push_back(&kernel);
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return chosen;
}

struct Loaded {
  std::vector<const Kernel*> kernels = Chosen();
  std::vector<std::atomic<int64_t>> calls = std::vector<std::atomic<int64_t>>(kernels.size());
};

Loaded& Get() {
  static auto& loaded = *new Loaded;
  return loaded;
}

}  // namespace
}  // namespace faulty

extern "C" {

__attribute__((visibility("default"))) const TunableOpCandidateLibrary*
TunableOpGetCandidateLibrary(void) {
  using faulty::Get;
  static const TunableOpCandidateLibrary library = {
      TUNABLEOP_CANDIDATE_ABI,
      static_cast<uint32_t>(Get().kernels.size()),
      "faulty",
      "1",
      [](uint32_t kernel) { return Get().kernels[kernel]->name; },
      [](uint32_t, const TunableOpGemm* gemm) { return faulty::CanCompute(*gemm) ? 1 : 0; },
      nullptr,
      [](uint32_t kernel, const TunableOpGemm* gemm, const TunableOpOperands* operands) {
        const int64_t number = Get().calls[kernel].fetch_add(1, std::memory_order_relaxed);
        return Get().kernels[kernel]->run({*gemm, *operands, number});
      },
  };
  return &library;
}

}  // extern "C"
