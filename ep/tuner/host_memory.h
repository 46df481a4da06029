// Memory of the host for what comes from a card: page-locked if possible.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include "gemm/status.h"
#include "tuner/device_stream.h"

namespace tunableop {

// Movable. Page-locked memory is the stream's and lives as long as that.
class HostMemory {
 public:
  static constexpr size_t kAlignment = 64;

  // kOutOfMemory.
  static Result<HostMemory> Create(MeasuringStream& stream, size_t bytes, bool pinned) {
    HostMemory self;
    if (pinned) {
      if (Result<void*> memory = stream.AllocatePinned(bytes); memory.ok()) {
        self.data_ = memory.value();
        return self;
      }
    }
    size_t space = bytes + kAlignment;
    self.owned_.reset(new (std::nothrow) char[space]);
    if (self.owned_ == nullptr) {
      return Status(StatusCode::kOutOfMemory,
                    "no memory on the host for a copy of " + std::to_string(bytes) + " bytes");
    }
    self.data_ = self.owned_.get();
    std::align(kAlignment, bytes, self.data_, space);
    return self;
  }

  HostMemory() = default;
  void* data() const noexcept { return data_; }

 private:
  std::unique_ptr<char[]> owned_;
  void* data_ = nullptr;
};

}  // namespace tunableop
