// The floating-point mode of a thread, where it matters for a reference.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tunableop {

// While it lives, this thread computes with subnormal numbers instead of taking them as zero, which
// ONNX Runtime may have set on some threads of a session. Converting an operand to fp64 would lose
// it already.
class KeepSubnormals {
 public:
  KeepSubnormals() noexcept {
#if defined(__x86_64__)
    constexpr uint32_t kFlushToZero = 0x8000;
    constexpr uint32_t kDenormalsAreZero = 0x0040;
    saved_ = _mm_getcsr();
    _mm_setcsr(static_cast<uint32_t>(saved_) & ~(kFlushToZero | kDenormalsAreZero));
#elif defined(__aarch64__)
    constexpr uint64_t kFlushToZero = uint64_t{1} << 24U;
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(saved_ & ~kFlushToZero));
#endif
  }
  ~KeepSubnormals() {
#if defined(__x86_64__)
    _mm_setcsr(static_cast<uint32_t>(saved_));
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" : : "r"(saved_));
#endif
  }
  KeepSubnormals(const KeepSubnormals&) = delete;
  KeepSubnormals& operator=(const KeepSubnormals&) = delete;

 private:
  uint64_t saved_ = 0;
};

}  // namespace tunableop
