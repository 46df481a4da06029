// Orders that ONNX Runtime guarantees, said to ThreadSanitizer: it does not see the atomics by
// which ONNX Runtime's pools hand work over, as nobody compiled that with it. Nothing in other
// builds.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace tunableop {

// What this thread has done so far is known to a thread that says HappensAfter of the same address
// later. Thread-safe.
inline void HappensBefore([[maybe_unused]] void* address) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(address);
#endif
}
inline void HappensAfter([[maybe_unused]] void* address) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(address);
#endif
}

}  // namespace tunableop
