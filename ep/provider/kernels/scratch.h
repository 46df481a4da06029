// Memory of a session's pool that work on one stream needs for a moment.
#pragma once

#include <cstddef>
#include <utility>

#include "gemm/device.h"
#include "provider/gpu/memory_pool.h"

namespace tunableop {

class Scratch {
 public:
  Scratch() noexcept = default;
  Scratch(MemoryPool& pool, size_t bytes, NativeStream stream) noexcept
      : pool_(&pool), memory_(pool.Allocate(bytes, stream)) {}
  Scratch(Scratch&& other) noexcept
      : pool_(other.pool_), memory_(std::exchange(other.memory_, nullptr)) {}
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Scratch() {
    // What is queued on the stream still uses it; so does, behind that, who gets it next.
    if (memory_ != nullptr) pool_->Free(memory_);
  }
  void* data() const noexcept { return memory_; }  // null: there was none left

 private:
  MemoryPool* pool_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace tunableop
