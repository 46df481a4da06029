// One MatMul or Gemm node of a model: who it is, and what it has met.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gemm/device_memory.h"
#include "gemm/packed_b.h"

namespace tunableop {

// Why a call ran a kernel that was not measured for its problem.
enum class Fallback : uint8_t {
  kTuningOff,
  kRecording,
  kNotInCache,
  kTunerBusy,      // another measurement was under way
  kOutOfMemory,    // no memory to measure
  kSessionBudget,  // max_session_ms is spent
  kDayBudget,      // max_day_ms is spent
  kNotWorthYet,    // its uses do not repay a measurement yet
  kWaiting,        // waits for an idle moment to be measured in
  kCapturing,      // the card's stream records a graph, and nothing may be measured
  kCount,
};
constexpr std::string_view Name(Fallback reason) noexcept {
  constexpr std::array<std::string_view, static_cast<size_t>(Fallback::kCount)> kNames = {
      "tuning_off",     "recording",  "not_in_cache",  "tuner_busy",       "out_of_memory",
      "session_budget", "day_budget", "not_worth_yet", "waiting_for_idle", "graph_capture"};
  return kNames[static_cast<size_t>(reason)];
}

// Calls by problem. On cache lines of their own, so that nodes do not slow each other down.
class alignas(64) NodeCounters {
 public:
  struct Use {
    uint64_t hash = 0;  // Hash(problem)
    uint64_t count = 0;
  };

  // A call ran what the cache knew. One atomic addition for the first kSlots problems of a node; a
  // node with more of them counts the rest together.
  void Hit(uint64_t hash) noexcept {
    for (size_t i = 0, at = hash >> 56U; i < kSlots; ++i, ++at) {
      Slot& slot = slots_[at % kSlots];
      uint64_t owner = slot.hash.load(std::memory_order_relaxed);
      if (owner == 0) slot.hash.compare_exchange_strong(owner, hash, std::memory_order_relaxed);
      if (owner == hash || owner == 0) {
        slot.count.fetch_add(1, std::memory_order_relaxed);
        return;
      }
    }
    others_.fetch_add(1, std::memory_order_relaxed);
  }

  uint64_t hits() const noexcept {
    uint64_t sum = others_.load(std::memory_order_relaxed);
    for (const Slot& slot : slots_) sum += slot.count.load(std::memory_order_relaxed);
    return sum;
  }
  // Hits that cannot be told apart.
  uint64_t others() const noexcept { return others_.load(std::memory_order_relaxed); }
  std::vector<Use> uses() const {
    std::vector<Use> uses;
    for (const Slot& slot : slots_) {
      const Use use{slot.hash.load(std::memory_order_relaxed),
                    slot.count.load(std::memory_order_relaxed)};
      if (use.count > 0) uses.push_back(use);
    }
    return uses;
  }

  void FellBack(Fallback reason) noexcept {
    fallbacks_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t fallbacks(Fallback reason) const noexcept {
    return fallbacks_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }

  std::atomic<uint64_t> misses{0};  // the cache did not know the problem

 private:
  struct Slot {
    std::atomic<uint64_t> hash{0};
    std::atomic<uint64_t> count{0};
  };
  static constexpr size_t kSlots = 16;
  std::array<Slot, kSlots> slots_;
  std::atomic<uint64_t> others_{0};
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Fallback::kCount)> fallbacks_{};
};

// A copy of a constant B on a card, transposed, made when a kernel that reads it is elected.
class TransposedWeight {
 public:
  // The copy of `b`; null: there is none. Lock-free.
  const void* Find(const void* b) const noexcept {
    const Copy* copy = copy_.load(std::memory_order_acquire);
    return copy != nullptr && copy->of == b ? copy->memory.data() : nullptr;
  }
  // One B for each node: a second is not kept, and null is returned.
  const void* Keep(const void* b, DeviceBuffer memory) {
    const std::lock_guard lock(mutex_);
    if (owned_ == nullptr) {
      owned_ = std::make_unique<const Copy>(Copy{b, std::move(memory)});
      copy_.store(owned_.get(), std::memory_order_release);
    }
    return owned_->of == b ? owned_->memory.data() : nullptr;
  }
  // There is one, whoever's.
  bool taken() const noexcept { return copy_.load(std::memory_order_acquire) != nullptr; }
  // It could not be made, and is not to be tried again.
  void Refuse() noexcept { refused_.store(true, std::memory_order_relaxed); }
  bool refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Copy {
    const void* of;
    DeviceBuffer memory;
  };
  std::mutex mutex_;
  std::unique_ptr<const Copy> owned_;
  std::atomic<const Copy*> copy_{nullptr};
  std::atomic<bool> refused_{false};
};

struct GemmNode {
  std::string op;    // "MatMul"
  std::string name;  // may be empty
  // Of a constant B that was packed; 0 and null otherwise. Written while the session is made.
  int64_t k = 0;
  int64_t n = 0;
  std::shared_ptr<const PackedB> weight;
  TransposedWeight transposed;
  NodeCounters counters;
};

}  // namespace tunableop
