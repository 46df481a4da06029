// Products of one A by several weights as one: the weights beside one another, copied once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "gemm/problem.h"
#include "gemm/status.h"
#include "provider/fusion/biased_product.h"
#include "provider/fusion/fusion.h"
#include "provider/gpu/memory_pool.h"

namespace tunableop {

// Memory of a session's card for as long as this lives.
class KeptMemory {
 public:
  KeptMemory() noexcept = default;
  KeptMemory(std::shared_ptr<MemoryPool> pool, size_t bytes)
      : pool_(std::move(pool)), memory_(pool_->Reserve(bytes)) {}
  KeptMemory(KeptMemory&& other) noexcept { Swap(other); }
  KeptMemory& operator=(KeptMemory&& other) noexcept {
    KeptMemory(std::move(other)).Swap(*this);
    return *this;
  }
  ~KeptMemory() {
    if (memory_ != nullptr) pool_->Free(memory_);
  }
  void* data() const noexcept { return memory_; }  // null: there was none

 private:
  void Swap(KeptMemory& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(memory_, other.memory_);
  }

  std::shared_ptr<MemoryPool> pool_;
  void* memory_ = nullptr;
};

// Three products of [m, k] by constants [k, n] of their own, and rows of biases: what attention
// begins with.
struct Projections {
  static constexpr size_t kCount = 3;

  ValueView x;  // [..., k]
  std::array<ValueView, kCount> weights;
  std::array<ValueView, kCount> biases;        // all, or none
  std::array<std::string_view, kCount> names;  // of the products' nodes

  bool biased() const noexcept { return biases[0].present(); }
};

// The results are beside one another, too: [m, width()]. Thread-safe once made.
class StackedProducts {
 public:
  Status Init(const FusedInfo& info, const Projections& projections);
  // `a`: [m, k()]. Queues the work.
  Status Run(const OpContext& context, const void* a, int64_t m, void* out) const;
  // Only one of the products: [m, its columns].
  Status RunPart(const OpContext& context, size_t product, const void* a, int64_t m,
                 void* out) const;

  const std::shared_ptr<SessionState>& state() const noexcept { return state_; }
  DataType type() const noexcept { return type_; }
  bool biased() const noexcept { return biases_.data() != nullptr; }
  int64_t k() const noexcept { return k_; }
  int64_t width() const noexcept { return width_; }
  // Of the results of the product in a row, in elements.
  int64_t offset(size_t product) const noexcept { return offsets_[product]; }

 private:
  // Columns of the weights that lie beside one another; `node`: whose they are.
  Status RunColumns(const OpContext& context, int64_t first, int64_t columns, const void* a,
                    int64_t m, void* out, GemmNode& node) const;

  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GpuSession> gpu_;
  // Of all, and of each: what a node keeps of its weight is that weight's alone.
  std::shared_ptr<GemmNode> node_;
  std::array<std::shared_ptr<GemmNode>, Projections::kCount> parts_;
  KeptMemory weights_;     // [k, width]
  KeptMemory biases_;      // [width]; nothing: there are none
  BiasedProduct product_;  // where there are biases
  DataType type_ = DataType::kFloat32;
  int64_t k_ = 0;
  int64_t width_ = 0;
  std::array<int64_t, Projections::kCount> offsets_{};
};

}  // namespace tunableop
