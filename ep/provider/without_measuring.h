// For kernels of several products that are measured as a whole: what they call must not begin to
// measure by itself.
#pragma once

#include <cstdint>

namespace tunableop {

// While one lives, products that are run on its thread are not measured, and those are counted that
// run on a kernel which was not elected.
class WithoutMeasuring {
 public:
  WithoutMeasuring() noexcept : outer_(current_) { current_ = this; }
  ~WithoutMeasuring() { current_ = outer_; }
  WithoutMeasuring(const WithoutMeasuring&) = delete;
  WithoutMeasuring& operator=(const WithoutMeasuring&) = delete;

  // On this thread.
  static bool Here() noexcept { return current_ != nullptr; }
  static void CountUnmeasured() noexcept {
    if (current_ != nullptr) ++current_->unmeasured_;
  }
  uint64_t unmeasured() const noexcept { return unmeasured_; }

 private:
  static inline thread_local WithoutMeasuring* current_ = nullptr;

  WithoutMeasuring* const outer_;
  uint64_t unmeasured_ = 0;
};

}  // namespace tunableop
