// A kernel of an Lt library, ready for one problem.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "backends/lt/core.h"
#include "backends/lt/descriptors.h"
#include "gemm/backend.h"
#include "gemm/device_queue.h"

namespace tunableop::lt {

// Descriptors for products that change them: those with a bias, whose pointer is a property of the
// descriptor, and all of hipBLASLt. Each belongs to one call at a time. Lock-free.
template <typename V>
class DescriptorPool {
 public:
  struct Entry {
    Foreign desc;
    const void* bias = nullptr;  // what is set in it
  };

  // Beyond as many calls at once, each makes one for itself.
  static constexpr size_t kSlots = 16;

  explicit DescriptorPool(Foreign first) {
    slots_[0].store(new Entry{std::move(first), nullptr}, std::memory_order_relaxed);
  }
  ~DescriptorPool() {
    for (std::atomic<Entry*>& slot : slots_) delete slot.load(std::memory_order_acquire);
  }
  DescriptorPool(const DescriptorPool&) = delete;
  DescriptorPool& operator=(const DescriptorPool&) = delete;

  Result<std::unique_ptr<Entry>> Take(const Api<V>& api, const ColumnMajorGemm& gemm) {
    for (std::atomic<Entry*>& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      Entry* entry = slot.exchange(nullptr, std::memory_order_acquire);
      if (entry != nullptr) return std::unique_ptr<Entry>(entry);
    }
    Result<Foreign> desc = MakeDescriptor(api, gemm);
    if (!desc.ok()) return desc.TakeStatus();
    return std::make_unique<Entry>(Entry{std::move(desc).value(), nullptr});
  }
  void Return(std::unique_ptr<Entry> entry) noexcept {
    Entry* const mine = entry.release();
    for (std::atomic<Entry*>& slot : slots_) {
      Entry* expected = nullptr;
      if (slot.compare_exchange_strong(expected, mine, std::memory_order_release,
                                       std::memory_order_relaxed)) {
        return;
      }
    }
    delete mine;
  }

 private:
  std::array<std::atomic<Entry*>, kSlots> slots_{};
};

template <typename V>
class LtPlan final : public Plan {
 public:
  // `pool`: for products that change their descriptor; null for those that do not.
  LtPlan(std::shared_ptr<const Core<V>> core, Description<V> description, const Launch<V>& launch,
         std::unique_ptr<DescriptorPool<V>> pool)
      : core_(std::move(core)),
        description_(std::move(description)),
        launch_(launch),
        pool_(std::move(pool)) {}

  static Result<std::unique_ptr<Plan>> Make(std::shared_ptr<const Core<V>> core,
                                            Description<V> description, const Launch<V>& launch) {
    std::unique_ptr<DescriptorPool<V>> pool;
    if (V::kDescriptorIsMutable || HasBias(description.gemm.epilogue)) {
      // The description's own stays for questions.
      Result<Foreign> first = MakeDescriptor(core->api, description.gemm);
      if (!first.ok()) return first.TakeStatus();
      pool = std::make_unique<DescriptorPool<V>>(std::move(first).value());
    }
    return std::unique_ptr<Plan>(
        std::make_unique<LtPlan>(std::move(core), std::move(description), launch, std::move(pool)));
  }

  bool needs_transposed_b() const noexcept override { return description_.gemm.reads_b_transposed; }

  Status Run(const Operands& operands, Executor& executor) const noexcept override {
    try {
      return TryRun(operands, executor);
    } catch (const std::bad_alloc&) {  // at first uses only
      return {StatusCode::kOutOfMemory, "no memory for a handle or a descriptor"};
    }
  }

 private:
  // Kernels that were found for smaller workspaces than launch_ needs; never shrinks.
  struct Smaller {
    Launch<V> launch;
    std::unique_ptr<const Smaller> next;
  };

  Status TryRun(const Operands& operands, Executor& executor) const {
    const DeviceQueue* queue = executor.queue();
    if (queue == nullptr) [[unlikely]] {
      return {StatusCode::kInvalidArgument, "a kernel of a card needs a queue of that card"};
    }
    const ColumnMajorGemm& gemm = description_.gemm;
    const void* b = gemm.reads_b_transposed ? operands.b_transposed : operands.b;
    const bool has_bias = HasBias(gemm.epilogue);
    if (b == nullptr || operands.a == nullptr || operands.c == nullptr ||
        (has_bias && operands.bias == nullptr)) [[unlikely]] {
      return {StatusCode::kInvalidArgument, "an operand is missing"};
    }
    const typename V::CurrentForRun current(*core_->device);
    Result<void*> handle = HandleOf(core_, *queue);
    if (!handle.ok()) [[unlikely]]
      return handle.TakeStatus();
    const Launch<V>* launch = &launch_;
    if (launch->workspace_bytes > queue->workspace_bytes()) [[unlikely]] {
      Result<const Launch<V>*> smaller = Within(queue->workspace_bytes());
      if (!smaller.ok()) return smaller.TakeStatus();
      launch = smaller.value();
    }
    if (pool_ == nullptr) {
      return Multiply(operands, b, *queue, handle.value(), description_.desc.get(), *launch);
    }
    auto entry = pool_->Take(core_->api, gemm);
    if (!entry.ok()) [[unlikely]]
      return entry.TakeStatus();
    Status status;
    if (has_bias && entry.value()->bias != operands.bias) {
      status = SetBias(core_->api, entry.value()->desc.get(), operands.bias);
      entry.value()->bias = status.ok() ? operands.bias : nullptr;
    }
    if (status.ok()) {
      status = Multiply(operands, b, *queue, handle.value(), entry.value()->desc.get(), *launch);
    }
    pool_->Return(std::move(entry).value());
    return status;
  }

  Status Multiply(const Operands& operands, const void* b, const DeviceQueue& queue, void* handle,
                  void* desc, const Launch<V>& launch) const noexcept {
    const float alpha = operands.alpha;
    const float beta = operands.beta;
    const double wide_alpha = alpha;
    const double wide_beta = beta;
    const bool wide = description_.gemm.type == DataType::kFloat64;
    const std::unique_lock turn =
        launch.workspace_bytes > 0 ? queue.Turn() : std::unique_lock<std::mutex>();
    return ToStatus<V>(
        core_->api.matmul(handle, desc, wide ? static_cast<const void*>(&wide_alpha) : &alpha, b,
                          description_.first.get(), operands.a, description_.second.get(),
                          wide ? static_cast<const void*>(&wide_beta) : &beta, operands.c,
                          description_.out.get(), operands.c, description_.out.get(), &launch.algo,
                          queue.workspace(), queue.workspace_bytes(), queue.stream()),
        "Matmul");
  }

  // What the library would take within `bytes`. Asked once for each size that is too small for
  // what was found before.
  Result<const Launch<V>*> Within(size_t bytes) const {
    for (const Smaller* one = smaller_.load(std::memory_order_acquire); one != nullptr;
         one = one->next.get()) {
      if (one->launch.workspace_bytes <= bytes) return &one->launch;
    }
    Asking<V> asking(*core_);
    TUNABLEOP_RETURN_IF_ERROR(asking.TakeStatus());
    auto found = AskHeuristic(*core_, description_, bytes, 1);
    if (!found.ok()) return found.TakeStatus();
    if (found.value().empty()) {
      return Status(StatusCode::kOutOfMemory,
                    std::string(V::kLibrary) + " has no kernel for this problem within the " +
                        std::to_string(bytes) + " bytes of workspace that the queue has");
    }
    const auto& result = found.value().front();
    auto one = std::make_unique<Smaller>();
    one->launch = {result.algo, result.workspaceSize};
    one->next = std::move(owned_);
    owned_ = std::move(one);
    smaller_.store(owned_.get(), std::memory_order_release);
    return &owned_->launch;
  }

  const std::shared_ptr<const Core<V>> core_;
  const Description<V> description_;
  const Launch<V> launch_;
  std::unique_ptr<DescriptorPool<V>> pool_;       // null: no product changes the descriptor
  mutable std::unique_ptr<const Smaller> owned_;  // guarded by the core's mutex
  mutable std::atomic<const Smaller*> smaller_ = nullptr;
};

}  // namespace tunableop::lt
