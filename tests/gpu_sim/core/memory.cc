#include "core/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/faults.h"

namespace simgpu {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kSpacing =
    256;  // between allocations: the end of one is never the start of another
constexpr size_t kFilled = size_t{4} << 20;
constexpr size_t kAddressesPerByte = 64;

struct Pinned {
  std::mutex mutex;
  std::map<uintptr_t, size_t> live;
};

Pinned& ThePinned() {
  static auto* const pinned = new Pinned;
  return *pinned;
}

// Whether the fault lets this allocation fail.
bool FailsNow(size_t bytes) {
  Count("mallocs");
  const int64_t nth = FaultArgument("oom", 0, 0);
  if (nth > 0 && CountedWithFaults("mallocs") == nth) return true;
  const int64_t above = FaultArgument("oom_above", 0, -1);
  return above >= 0 && bytes > static_cast<size_t>(above);
}

}  // namespace

Arena::Arena(size_t capacity) : capacity_(capacity), range_(capacity * kAddressesPerByte) {
  file_ = memfd_create("gpu_sim", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(range_)) != 0) std::abort();
  void* const device =
      mmap(nullptr, range_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* const view =
      mmap(nullptr, range_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (device == MAP_FAILED || view == MAP_FAILED) {
    std::fprintf(stderr, "gpu_sim: no address space for a card\n");
    std::abort();
  }
  // A core dump would write the holes out.
  madvise(view, range_, MADV_DONTDUMP);
  device_ = static_cast<char*>(device);
  view_ = static_cast<char*>(view);
}

Err Arena::Allocate(size_t bytes, void** address) {
  *address = nullptr;
  if (bytes == 0) return Err::kOk;
  if (FailsNow(bytes)) return Err::kOutOfMemory;
  const std::lock_guard lock(mutex_);
  if (bytes > capacity_) return Err::kOutOfMemory;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (used_ + rounded > capacity_) return Err::kOutOfMemory;
  // Addresses are handed out in one direction, around the range.
  for (int rounds = 0; rounds < 2;) {
    if (next_ + rounded + kSpacing > range_) {
      next_ = 0;
      ++rounds;
      continue;
    }
    const auto after = live_.lower_bound(next_);
    if (after != live_.begin()) {
      const auto before = std::prev(after);
      const size_t end =
          before->first + (before->second.bytes + kAlignment - 1) / kAlignment * kAlignment;
      if (end + kSpacing > next_ && next_ >= before->first && next_ < end + kSpacing) {
        next_ = end + kSpacing;
        continue;
      }
    }
    if (after != live_.end() && after->first < next_ + rounded + kSpacing) {
      next_ = after->first + (after->second.bytes + kAlignment - 1) / kAlignment * kAlignment +
              kSpacing;
      continue;
    }
    live_.emplace(next_, Block{bytes, 0, 0, 0});
    used_ += rounded;
    if (bytes <= kFilled) std::memset(view_ + next_, 0xFF, bytes);
    *address = device_ + next_;
    next_ += rounded + kSpacing;
    return Err::kOk;
  }
  return Err::kOutOfMemory;
}

Err Arena::Free(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(static_cast<size_t>(static_cast<char*>(address) - device_));
  if (found == live_.end()) return Err::kInvalidDevicePointer;
  Count("frees");
  const size_t rounded = (found->second.bytes + kAlignment - 1) / kAlignment * kAlignment;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(found->first),
            static_cast<off_t>(rounded));
  used_ -= rounded;
  live_.erase(found);
  return Err::kOk;
}

bool Arena::Contains(const void* address) const {
  const char* const at = static_cast<const char*>(address);
  return at >= device_ && at < device_ + range_;
}

Arena::Block* Arena::Find(const void* address, size_t bytes) const {
  if (!Contains(address)) return nullptr;
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - device_);
  auto found = live_.upper_bound(offset);
  if (found == live_.begin()) return nullptr;
  --found;
  return offset + bytes > found->first + found->second.bytes ? nullptr : &found->second;
}

bool Arena::Covers(const void* address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  return Find(address, bytes) != nullptr;
}

void Arena::Settle(Block& block) const {
  if (block.fill_bytes != 0) std::memset(view_ + block.fill_at, block.fill_with, block.fill_bytes);
  block.fill_bytes = 0;
}

char* Arena::View(const void* address, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  Block* const block = Find(address, bytes);
  if (block == nullptr) return nullptr;
  Settle(*block);
  return view_ + (static_cast<const char*>(address) - device_);
}

std::string Arena::Whole::Gaps() const {
  return std::string(gaps[0], gap_bytes[0]) + std::string(gaps[1], gap_bytes[1]);
}

Arena::Whole Arena::BlockOf(const void* address) const {
  const std::lock_guard lock(mutex_);
  Block* const block = Find(address, 1);
  if (block == nullptr) return {};
  Settle(*block);
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - device_);
  const size_t begin = std::prev(live_.upper_bound(offset))->first;
  const size_t end = (begin + block->bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t before = begin >= kSpacing ? kSpacing : 0;
  return {device_ + begin,
          view_ + begin,
          block->bytes,
          {view_ + begin - before, view_ + begin + block->bytes},
          {before, end + kSpacing - begin - block->bytes}};
}

bool Arena::Fill(void* address, int value, size_t bytes) {
  const std::lock_guard lock(mutex_);
  Block* const block = Find(address, bytes);
  if (block == nullptr) return false;
  const auto at = static_cast<size_t>(static_cast<char*>(address) - device_);
  if (at > block->fill_at || at + bytes < block->fill_at + block->fill_bytes) Settle(*block);
  block->fill_at = at;
  block->fill_bytes = bytes;
  block->fill_with = value;
  return true;
}

size_t Arena::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

Err AllocatePinned(size_t bytes, void** address) {
  *address = nullptr;
  if (bytes == 0) return Err::kOk;
  if (FailsNow(bytes)) return Err::kOutOfMemory;
  void* const memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (memory == nullptr) return Err::kOutOfMemory;
  Pinned& pinned = ThePinned();
  const std::lock_guard lock(pinned.mutex);
  pinned.live.emplace(reinterpret_cast<uintptr_t>(memory), bytes);
  *address = memory;
  return Err::kOk;
}

Err FreePinned(void* address) {
  if (address == nullptr) return Err::kOk;
  Pinned& pinned = ThePinned();
  const std::lock_guard lock(pinned.mutex);
  if (pinned.live.erase(reinterpret_cast<uintptr_t>(address)) == 0) return Err::kInvalidValue;
  Count("frees");
  std::free(address);
  return Err::kOk;
}

bool IsPinned(const void* address, size_t bytes) {
  Pinned& pinned = ThePinned();
  const std::lock_guard lock(pinned.mutex);
  auto found = pinned.live.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (found == pinned.live.begin()) return false;
  --found;
  return reinterpret_cast<uintptr_t>(address) + bytes <= found->first + found->second;
}

}  // namespace simgpu
