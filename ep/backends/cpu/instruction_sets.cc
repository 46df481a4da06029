#include "backends/cpu/instruction_sets.h"

#include <array>
#include <cstddef>

namespace tunableop::cpu {
namespace {

struct Runnable {
  std::array<const MicroKernels*, 3> kernels = {};
  size_t count = 0;

  Runnable() noexcept {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      kernels[count++] = &kAvx512Kernels;
    }
    if (avx2) kernels[count++] = &kAvx2Kernels;
    if (__builtin_cpu_supports("sse4.2")) kernels[count++] = &kSse42Kernels;
#elif defined(__aarch64__)
    kernels[count++] = &kNeonKernels;
#endif
  }
};

}  // namespace

std::span<const MicroKernels* const> RunnableKernels() noexcept {
  static const Runnable runnable;
  return {runnable.kernels.data(), runnable.count};
}

const MicroKernels* FindKernels(std::string_view name) noexcept {
  for (const MicroKernels* kernels : RunnableKernels()) {
    if (name == kernels->name) return kernels;
  }
  return nullptr;
}

}  // namespace tunableop::cpu
