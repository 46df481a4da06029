#include "cache/fingerprint.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tunableop {
namespace {

// Runs of blanks become one, those at the ends go: brand strings are padded.
std::string Tidy(std::string_view text) {
  std::string tidy;
  for (const char c : text) {
    if (c == '\0') break;
    if (c == ' ' || c == '\t') {
      if (!tidy.empty() && tidy.back() != ' ') tidy += ' ';
    } else {
      tidy += c;
    }
  }
  while (!tidy.empty() && tidy.back() == ' ') tidy.pop_back();
  return tidy;
}

std::string Join(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : " ") + name;
  return joined;
}

#if defined(__x86_64__) || defined(__i386__)

std::string Model() {
  uint32_t words[12] = {};
  uint32_t highest = __get_cpuid_max(0x80000000U, nullptr);
  if (highest < 0x80000004U) return "x86";
  for (uint32_t i = 0; i < 3; ++i) {
    __get_cpuid(0x80000002U + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                &words[4 * i + 3]);
  }
  char brand[sizeof(words)];
  std::memcpy(brand, words, sizeof(words));
  return Tidy(std::string_view(brand, sizeof(brand)));
}

// __builtin_cpu_supports also asks whether the operating system saves the registers.
std::string Features() {
  __builtin_cpu_init();
  std::vector<std::string> names;
  if (__builtin_cpu_supports("avx")) names.emplace_back("avx");
  if (__builtin_cpu_supports("avx2")) names.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) names.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f")) names.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512bw")) names.emplace_back("avx512bw");
  if (__builtin_cpu_supports("avx512dq")) names.emplace_back("avx512dq");
  if (__builtin_cpu_supports("avx512vl")) names.emplace_back("avx512vl");
  if (__builtin_cpu_supports("avx512vnni")) names.emplace_back("avx512vnni");
  if (__builtin_cpu_supports("avx512bf16")) names.emplace_back("avx512bf16");
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  // AMX tiles are kernels' business only where AVX-512 is; the operating system grants them per
  // process, on request, so that the processor's word is all that can be had here.
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    if (edx & (1U << 22)) names.emplace_back("amx_bf16");
    if (edx & (1U << 25)) names.emplace_back("amx_int8");
  }
  return Join(std::move(names));
}

#elif defined(__aarch64__)

// The first "model name" line, else implementer and part ("arm 0x41 part 0xd40").
std::string Model() {
  std::ifstream file("/proc/cpuinfo");
  std::string implementer;
  std::string part;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = Tidy(std::string_view(line).substr(0, colon));
    const std::string value = Tidy(std::string_view(line).substr(colon + 1));
    if (key == "model name") return value;
    if (key == "CPU implementer" && implementer.empty()) implementer = value;
    if (key == "CPU part" && part.empty()) part = value;
  }
  if (implementer.empty()) return "aarch64";
  return "arm " + implementer + " part " + part;
}

// Bits of the AArch64 Linux ABI (asm/hwcap.h), which old headers lack in part.
std::string Features() {
  const unsigned long hwcap = getauxval(AT_HWCAP);
  const unsigned long hwcap2 = getauxval(AT_HWCAP2);
  std::vector<std::string> names;
  if (hwcap & (1UL << 1)) names.emplace_back("asimd");
  if (hwcap & (1UL << 10)) names.emplace_back("asimdhp");
  if (hwcap & (1UL << 20)) names.emplace_back("asimddp");
  if (hwcap & (1UL << 22)) names.emplace_back("sve");
  if (hwcap2 & (1UL << 1)) names.emplace_back("sve2");
  if (hwcap2 & (1UL << 13)) names.emplace_back("i8mm");
  if (hwcap2 & (1UL << 14)) names.emplace_back("bf16");
  return Join(std::move(names));
}

#else
std::string Model() { return "unknown"; }
std::string Features() { return ""; }
#endif

// Not those that this process may run on: affinities change while it runs, and the threads that a
// product was measured with are in its key.
int Cores() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

}  // namespace

const Fingerprint& CpuFingerprint() {
  static const Fingerprint* fingerprint = new Fingerprint{"cpu", Model(), Features(), Cores()};
  return *fingerprint;
}

}  // namespace tunableop
