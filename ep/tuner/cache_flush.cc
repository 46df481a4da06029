#include "tuner/cache_flush.h"

#include <algorithm>
#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

namespace tunableop {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;  // of one task; smaller ranges are not spread

#if defined(__x86_64__)

struct Flusher {
  size_t line = 0;  // bytes; 0: there is no such instruction
  bool optimised = false;
};

Flusher Find() noexcept {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  Flusher flusher;
  // Intel's manual, volume 2, CPUID: leaf 1, EDX bit 19 is CLFSH, EBX bits 15-8 the size of a line
  // in units of 8 bytes; leaf 7, EBX bit 23 is CLFLUSHOPT.
  if (__get_cpuid(1, &a, &b, &c, &d) != 0 && (d >> 19U & 1U) != 0)
    flusher.line = (b >> 8U & 255U) * 8;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) flusher.optimised = (b >> 23U & 1U) != 0;
  return flusher;
}

const Flusher& TheFlusher() noexcept {
  static const Flusher flusher = Find();
  return flusher;
}

size_t LineBytes() noexcept { return TheFlusher().line; }

void FlushLines(uintptr_t begin, uintptr_t end, size_t line) noexcept {
  _mm_mfence();
  if (TheFlusher().optimised) {
    // clflushopt by its bytes, so that the compiler need not be told of the processor: it does not
    // wait for the line before.
    for (; begin < end; begin += line) {
      asm volatile(".byte 0x66; clflush %0" : "+m"(*reinterpret_cast<volatile char*>(begin)));
    }
  } else {
    for (; begin < end; begin += line) _mm_clflush(reinterpret_cast<const void*>(begin));
  }
  _mm_mfence();
}

#elif defined(__aarch64__)

// Linux lets programs clean and invalidate (SCTLR_EL1.UCI) and read the size of a line (UCT).
size_t LineBytes() noexcept {
#if defined(__linux__)
  uint64_t type = 0;
  asm volatile("mrs %0, ctr_el0" : "=r"(type));
  return size_t{4} << (type >> 16U & 15U);  // DminLine: log2 of words
#else
  return 0;
#endif
}

void FlushLines(uintptr_t begin, uintptr_t end, size_t line) noexcept {
  for (; begin < end; begin += line) asm volatile("dc civac, %0" : : "r"(begin) : "memory");
  asm volatile("dsb ish" : : : "memory");
}

#else

size_t LineBytes() noexcept { return 0; }
void FlushLines(uintptr_t /*begin*/, uintptr_t /*end*/, size_t /*line*/) noexcept {}

#endif

}  // namespace

bool CanFlushCaches() noexcept { return LineBytes() != 0; }

void FlushFromCaches(const void* data, size_t bytes, Executor& executor) noexcept {
  struct Job {
    uintptr_t begin;
    uintptr_t end;
    size_t line;
  };
  const size_t line = LineBytes();
  if (line == 0 || bytes == 0) return;
  const auto address = reinterpret_cast<uintptr_t>(data);
  Job job{address / line * line, address + bytes, line};
  const size_t pieces = (job.end - job.begin + kPieceBytes - 1) / kPieceBytes;
  const Executor::Task flush = [](void* context, size_t index) {
    const Job& j = *static_cast<const Job*>(context);
    const uintptr_t begin = j.begin + index * kPieceBytes;
    FlushLines(begin, std::min(j.end, begin + kPieceBytes), j.line);
  };
  if (pieces == 1) {
    flush(&job, 0);
  } else {
    executor.ParallelFor(pieces, flush, &job);
  }
}

}  // namespace tunableop
