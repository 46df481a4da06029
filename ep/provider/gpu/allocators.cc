#include "provider/gpu/allocators.h"

#include <string>
#include <utility>

#include "provider/guard.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

class Allocator : public OrtAllocator {
 public:
  virtual ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

 protected:
  explicit Allocator(const OrtMemoryInfo* info) : OrtAllocator{}, info_(info) {
    version = Ort().version;
    OrtAllocator::Info = [](const OrtAllocator* self) {
      return static_cast<const Allocator*>(self)->info_;
    };
  }

 private:
  const OrtMemoryInfo* info_;
};

class SessionAllocator final : public Allocator {
 public:
  SessionAllocator(std::shared_ptr<MemoryPool> pool, const OrtMemoryInfo* info)
      : Allocator(info), pool_(std::move(pool)) {
    OrtAllocator::Alloc = [](OrtAllocator* self, size_t size) noexcept {
      return PoolOf(self).Allocate(size);
    };
    OrtAllocator::Reserve = [](OrtAllocator* self, size_t size) noexcept {
      return PoolOf(self).Reserve(size);
    };
    OrtAllocator::Free = [](OrtAllocator* self, void* memory) noexcept {
      PoolOf(self).Free(memory);
    };
    OrtAllocator::AllocOnStream = &AllocOnStreamImpl;
    OrtAllocator::GetStats = &GetStatsImpl;
    if (Ort().Has(ort_since::OrtAllocator_Shrink)) OrtAllocator::Shrink = &ShrinkImpl;
  }

 private:
  static MemoryPool& PoolOf(const OrtAllocator* self) noexcept {
    return *static_cast<const SessionAllocator*>(self)->pool_;
  }

  static void* AllocOnStreamImpl(OrtAllocator* self, size_t size, OrtSyncStream* stream) noexcept {
    MemoryPool& pool = PoolOf(self);
    if (stream == nullptr) return pool.Allocate(size);
    return pool.Allocate(size, Ort().api->SyncStream_GetHandle(stream));
  }

  static OrtStatus* ShrinkImpl(OrtAllocator* self) noexcept {
    PoolOf(self).Trim();
    return nullptr;
  }

  // The keys are those of ONNX Runtime's own arena.
  static OrtStatus* GetStatsImpl(const OrtAllocator* self, OrtKeyValuePairs** out) noexcept {
    *out = nullptr;
    return Guard([&]() -> Status {
      const MemoryPool::Stats stats = PoolOf(self).stats();
      OrtKeyValuePairs* pairs = nullptr;
      Ort().api->CreateKeyValuePairs(&pairs);
      OwnedKeyValuePairs owned(pairs);
      const auto add = [pairs](const char* key, uint64_t value) {
        Ort().api->AddKeyValuePair(pairs, key, std::to_string(value).c_str());
      };
      add("NumAllocs", stats.allocations);
      add("NumReserves", stats.reserves);
      add("InUse", stats.in_use);
      add("MaxInUse", stats.most_in_use);
      add("TotalAllocated", stats.held);
      add("MaxAllocSize", stats.largest);
      add("NumFailures", stats.failures);
      *out = owned.release();
      return Status::Ok();
    });
  }

  const std::shared_ptr<MemoryPool> pool_;
};

class SharedAllocator final : public Allocator {
 public:
  SharedAllocator(Card& card, bool host)
      : Allocator(host ? card.host_memory() : card.memory()), card_(card), host_(host) {
    OrtAllocator::Alloc = [](OrtAllocator* self, size_t size) noexcept {
      return static_cast<SharedAllocator*>(self)->Allocate(size);
    };
    OrtAllocator::Reserve = OrtAllocator::Alloc;
    OrtAllocator::Free = [](OrtAllocator* self, void* memory) noexcept {
      static_cast<SharedAllocator*>(self)->Release(memory);
    };
  }

 private:
  Result<void*> Ask(size_t size) const noexcept {
    return host_ ? card_.device()->AllocateHost(size) : card_.device()->Allocate(size);
  }
  void* Allocate(size_t size) const noexcept {
    if (size == 0) return nullptr;
    Result<void*> memory = Ask(size);
    if (!memory.ok() && card_.TrimAll() > 0) memory = Ask(size);
    return memory.ok() ? memory.value() : nullptr;
  }
  void Release(void* memory) const noexcept {
    if (memory == nullptr || card_.device()->lost()) return;
    if (host_) {
      card_.device()->FreeHost(memory);
    } else {
      card_.device()->Free(memory);
    }
  }

  Card& card_;
  const bool host_;
};

}  // namespace

OrtAllocator* MakeSessionAllocator(std::shared_ptr<MemoryPool> pool, const OrtMemoryInfo* info) {
  return new SessionAllocator(std::move(pool), info);
}

OrtAllocator* MakeSharedAllocator(Card& card, bool host) { return new SharedAllocator(card, host); }

void ReleaseAllocatorOfOurs(OrtAllocator* allocator) noexcept {
  delete static_cast<Allocator*>(allocator);
}

}  // namespace tunableop
