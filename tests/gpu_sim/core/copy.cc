#include "core/copy.h"

#include <cstring>
#include <memory>

#include "core/card.h"
#include "core/faults.h"
#include "core/stream.h"

namespace simgpu {
namespace {

constexpr double kCopyStartMs = 0.002;
constexpr double kBytesPerMs = 1e9;

// The host's view of memory of any card, or of the host itself.
char* Open(const void* address, size_t bytes) {
  if (Card* const card = OwnerOf(address)) return card->memory.View(address, bytes);
  return static_cast<char*>(const_cast<void*>(address));
}

bool OnDevice(const void* address) { return OwnerOf(address) != nullptr; }

}  // namespace

Where WhereIs(const void* address, int* ordinal) {
  *ordinal = Current();
  if (const Card* const card = OwnerOf(address)) {
    *ordinal = card->ordinal;
    return card->memory.Covers(address, 1) ? Where::kDevice : Where::kPageable;
  }
  return IsPinned(address, 1) ? Where::kPinned : Where::kPageable;
}

Err Copy(void* to, const void* from, size_t bytes, Direction direction, void* handle,
         bool synchronous) {
  std::shared_ptr<Stream> stream;
  if (const Err error = FindStream(handle, &stream); error != Err::kOk) return error;
  Count("copies");
  Count("bytes_copied", static_cast<int64_t>(bytes));
  if (bytes == 0) return Err::kOk;
  const bool to_device = OnDevice(to);
  const bool from_device = OnDevice(from);
  const bool to_host = direction == Direction::kDeviceToHost || direction == Direction::kHostToHost;
  const bool from_host =
      direction == Direction::kHostToDevice || direction == Direction::kHostToHost;
  if (direction != Direction::kDefault) {
    // The driver knows what an address is, and refuses a copy that says otherwise.
    if (to_host == to_device && !IsPinned(to, bytes)) return Err::kInvalidValue;
    if (from_host == from_device && !IsPinned(from, bytes)) return Err::kInvalidValue;
  }
  if (Open(to, bytes) == nullptr || Open(from, bytes) == nullptr) return Err::kInvalidValue;
  const bool pageable =
      (!to_device && !IsPinned(to, bytes)) || (!from_device && !IsPinned(from, bytes));
  const bool waits = pageable || (synchronous && !(to_device && from_device));
  if (synchronous) {
    if (const Err error = ForbiddenInCapture(); error != Err::kOk) return error;
  }
  return Enqueue(
      stream,
      [=](Card& card) {
        char* const target = Open(to, bytes);
        const char* const source = Open(from, bytes);
        if (target == nullptr || source == nullptr) {
          Count("illegal_address");
          card.lost = Err::kIllegalAddress;
          return 0.0;
        }
        std::memmove(target, source, bytes);
        if (to_device) card.cache.Touch(to, bytes);
        return kCopyStartMs + static_cast<double>(bytes) / kBytesPerMs;
      },
      waits);
}

Err CopyRows(void* to, size_t to_step, const void* from, size_t from_step, size_t width,
             size_t rows, Direction direction, void* handle) {
  std::shared_ptr<Stream> stream;
  if (const Err error = FindStream(handle, &stream); error != Err::kOk) return error;
  Count("row_copies");
  if (direction != Direction::kDeviceToDevice) {
    Misuse("rows are only copied on the card");
    return Err::kNotSupported;
  }
  if (to_step < width || from_step < width) return Err::kInvalidValue;
  if (width == 0 || rows == 0) return Err::kOk;
  const size_t to_bytes = (rows - 1) * to_step + width;
  const size_t from_bytes = (rows - 1) * from_step + width;
  const Arena& memory = stream->card.memory;
  if (!memory.Covers(to, to_bytes) || !memory.Covers(from, from_bytes)) return Err::kInvalidValue;
  return Enqueue(stream, [=](Card& card) {
    char* const target = card.memory.View(to, to_bytes);
    const char* const source = card.memory.View(from, from_bytes);
    if (target == nullptr || source == nullptr) {
      Count("illegal_address");
      card.lost = Err::kIllegalAddress;
      return 0.0;
    }
    for (size_t row = 0; row < rows; ++row) {
      std::memcpy(target + row * to_step, source + row * from_step, width);
    }
    card.cache.Touch(to, to_bytes);
    return kCopyStartMs + static_cast<double>(width * rows) / kBytesPerMs;
  });
}

Err Fill(void* to, int value, size_t bytes, void* handle) {
  std::shared_ptr<Stream> stream;
  if (const Err error = FindStream(handle, &stream); error != Err::kOk) return error;
  Count("fills");
  if (bytes == 0) return Err::kOk;
  if (!stream->card.memory.Covers(to, bytes) && !IsPinned(to, bytes)) return Err::kInvalidValue;
  return Enqueue(stream, [=](Card& card) {
    if (!card.memory.Fill(to, value, bytes)) {
      if (!IsPinned(to, bytes)) {
        Count("illegal_address");
        card.lost = Err::kIllegalAddress;
        return 0.0;
      }
      std::memset(to, value, bytes);
    }
    card.cache.Touch(to, bytes);
    return kCopyStartMs + static_cast<double>(bytes) / kBytesPerMs;
  });
}

Err Allocate(void** address, size_t bytes) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  if (const Err error = ForbiddenInCapture(); error != Err::kOk) return error;
  return CurrentCard().memory.Allocate(bytes, address);
}

Err Free(void* address) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  if (address == nullptr) return Err::kOk;
  if (const Err error = ForbiddenInCapture(); error != Err::kOk) return error;
  Card* const owner = OwnerOf(address);
  if (owner == nullptr) return Err::kInvalidValue;
  // It waits for all of the card, as the vendors' does.
  const int previous = Current();
  SetCurrent(owner->ordinal);
  const Err waited = SynchronizeCard();
  SetCurrent(previous);
  const Err freed = owner->memory.Free(address);
  return freed != Err::kOk ? Err::kInvalidValue : waited;
}

Err AllocateHost(void** address, size_t bytes) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  if (const Err error = ForbiddenInCapture(); error != Err::kOk) return error;
  return AllocatePinned(bytes, address);
}

Err FreeHost(void* address) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  if (const Err error = ForbiddenInCapture(); error != Err::kOk) return error;
  if (address == nullptr) return Err::kOk;
  const Err waited = SynchronizeCard();
  const Err freed = FreePinned(address);
  return freed != Err::kOk ? freed : waited;
}

Err AllocateOn(void** address, size_t bytes, void* handle) {
  std::shared_ptr<Stream> stream;
  if (const Err error = FindStream(handle, &stream); error != Err::kOk) return error;
  int status = 0;
  if (const Err error = IsCapturing(handle, &status); error != Err::kOk) return error;
  if (status != 0) return Err::kNotSupported;  // nodes of memory in a graph: not simulated
  Count("async_mallocs");
  return stream->card.memory.Allocate(bytes, address);
}

Err FreeOn(void* address, void* handle) {
  std::shared_ptr<Stream> stream;
  if (const Err error = FindStream(handle, &stream); error != Err::kOk) return error;
  if (address == nullptr) return Err::kOk;
  Card* const owner = OwnerOf(address);
  if (owner == nullptr || !owner->memory.Covers(address, 1)) return Err::kInvalidValue;
  return Enqueue(stream, [=](Card&) {
    static_cast<void>(owner->memory.Free(address));
    return 0.0;
  });
}

Err MemoryInfo(size_t* free, size_t* total) {
  if (const Err error = Healthy(); error != Err::kOk) return error;
  const Arena& memory = CurrentCard().memory;
  *total = memory.capacity();
  *free = memory.capacity() - memory.used();
  return Err::kOk;
}

}  // namespace simgpu
