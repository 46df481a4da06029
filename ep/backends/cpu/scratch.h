// Memory of one thread for packed blocks. Grows to what the largest kernel needs (bounded by the
// block sizes, a few MiB), is never returned before the thread ends, and so costs nothing per call.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace tunableop::cpu {

class Scratch {
 public:
  // nullptr: out of memory. The content does not survive growing. Aligned to 4096 bytes.
  float* Reserve(size_t floats) noexcept {
    if (floats <= capacity_) return data_.get();
    data_.reset();
    capacity_ = 0;
    const size_t wanted = floats + floats / 4;
    data_.reset(
        static_cast<float*>(::operator new(wanted * sizeof(float), kAlignment, std::nothrow)));
    if (data_) capacity_ = wanted;
    return data_.get();
  }

  // Of the calling thread.
  static Scratch& Get() noexcept {
    thread_local Scratch scratch;
    return scratch;
  }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(float* data) const noexcept { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<float, Free> data_;
  size_t capacity_ = 0;
};

}  // namespace tunableop::cpu
