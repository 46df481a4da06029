// One library on one card, and its handles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/lt/api.h"
#include "backends/lt/descriptors.h"
#include "backends/lt/lt_backend.h"
#include "gemm/device.h"
#include "gemm/device_queue.h"
#include "gemm/status.h"

namespace tunableop::lt {

template <typename V>
struct Core {
  Core(std::shared_ptr<const Device> owner, const Api<V>& functions)
      : device(std::move(owner)), api(functions) {}
  ~Core() {
    if (handle.get() == nullptr) return;
    const CurrentAside current(*device);
    handle = Foreign();
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const std::shared_ptr<const Device> device;
  const Api<V> api;
  // For questions, one at a time: see Asking. Null until the first, since it makes the vendor's
  // context on the card, which takes hundreds of megabytes there.
  mutable Foreign handle;
  mutable std::mutex mutex;
};

template <typename V>
Result<Foreign> CreateHandle(const Api<V>& api) {
  void* handle = nullptr;
  TUNABLEOP_RETURN_IF_ERROR(ToStatus<V>(api.create(&handle), "Create"));
  return Foreign(handle, api.destroy);
}

// The card is current and the core's handle is the caller's while this lives.
template <typename V>
class Asking {
 public:
  explicit Asking(const Core<V>& core) : current_(*core.device), lock_(core.mutex) {
    if (core.handle.get() != nullptr) return;
    Result<Foreign> handle = CreateHandle(core.api);
    if (handle.ok()) {
      core.handle = std::move(handle).value();
    } else {
      status_ = handle.TakeStatus();
    }
  }

  // Not OK: nothing may be asked.
  Status TakeStatus() noexcept { return std::move(status_); }

 private:
  const CurrentAside current_;
  const std::scoped_lock<std::mutex> lock_;
  Status status_;
};

// A handle of hipBLASLt must not serve two streams (its own header says so), and cublasLt's are
// cheap: each queue has one.
template <typename V>
class QueueHandle final : public QueueState {
 public:
  QueueHandle(std::shared_ptr<const Core<V>> core, Foreign handle) noexcept
      : core_(std::move(core)), handle_(std::move(handle)) {}
  ~QueueHandle() override {
    // hipBLASLt would wait for the card.
    if (core_->device->lost() || core_->device->stuck()) handle_.Abandon();
    const CurrentAside current(*core_->device);
    handle_ = Foreign();
  }
  QueueHandle(const QueueHandle&) = delete;
  QueueHandle& operator=(const QueueHandle&) = delete;

  void* get() const noexcept { return handle_.get(); }

 private:
  const std::shared_ptr<const Core<V>> core_;
  Foreign handle_;
};

// Made at the first use of the queue, since it allocates; kBusy: while a graph is captured there.
// The card is current.
template <typename V>
Result<void*> HandleOf(const std::shared_ptr<const Core<V>>& core, const DeviceQueue& queue) {
  const QueueState* state = queue.state(kLtQueueSlot);
  if (state == nullptr) [[unlikely]] {
    if (core->device->IsCapturing(queue.stream())) {
      return Status(StatusCode::kBusy, std::string(V::kLibrary) +
                                           " has no handle on this stream yet, and none can be "
                                           "made while a graph is captured");
    }
    const CurrentAside current(*core->device);
    Result<Foreign> handle = CreateHandle(core->api);
    if (!handle.ok()) return handle.TakeStatus();
    state = queue.SetState(kLtQueueSlot,
                           std::make_unique<QueueHandle<V>>(core, std::move(handle).value()));
  }
  return static_cast<const QueueHandle<V>*>(state)->get();
}

// A kernel ready to run one product.
template <typename V>
struct Launch {
  typename V::Algo algo{};
  size_t workspace_bytes = 0;
};

// With the name that finds it again.
template <typename V>
struct Kernel {
  std::string name;
  int64_t opaque_id = -1;
  Launch<V> launch;
};

// The library's own list, its first choice first, of kernels that need at most `workspace_bytes`.
// Empty: it has none. Needs Asking.
template <typename V>
Result<std::vector<typename V::HeuristicResult>> AskHeuristic(const Core<V>& core,
                                                              const Description<V>& description,
                                                              size_t workspace_bytes, int count) {
  const Api<V>& api = core.api;
  void* object = nullptr;
  TUNABLEOP_RETURN_IF_ERROR(ToStatus<V>(api.preference_create(&object), "MatmulPreferenceCreate"));
  const Foreign preference(object, api.preference_destroy);
  const auto prefer = [&](int attribute, auto value) {
    return ToStatus<V>(api.preference_set(object, attribute, &value, sizeof(value)),
                       "MatmulPreferenceSetAttribute(" + std::to_string(attribute) + ")");
  };
  TUNABLEOP_RETURN_IF_ERROR(prefer(V::kPrefWorkspace, static_cast<uint64_t>(workspace_bytes)));
  if constexpr (V::kPrefersAlignment) {
    const ColumnMajorGemm& gemm = description.gemm;
    TUNABLEOP_RETURN_IF_ERROR(prefer(V::kPrefAlignmentFirst, gemm.first.align_bytes));
    TUNABLEOP_RETURN_IF_ERROR(prefer(V::kPrefAlignmentSecond, gemm.second.align_bytes));
    TUNABLEOP_RETURN_IF_ERROR(prefer(V::kPrefAlignmentC, gemm.out.align_bytes));
    TUNABLEOP_RETURN_IF_ERROR(prefer(V::kPrefAlignmentD, gemm.out.align_bytes));
    TUNABLEOP_RETURN_IF_ERROR(
        prefer(V::kPrefReductions, V::ReductionsOf(gemm.type, gemm.precision)));
  }
  std::vector<typename V::HeuristicResult> results(static_cast<size_t>(count));
  int found = 0;  // hipBLASLt before 1.5 leaves it alone when it fails
  const int status =
      api.heuristic(core.handle.get(), description.desc.get(), description.first.get(),
                    description.second.get(), description.out.get(), description.out.get(),
                    preference.get(), count, results.data(), &found);
  if (status != 0) {
    Status error = ToStatus<V>(status, "MatmulAlgoGetHeuristic");
    if (error.code() != StatusCode::kNotSupported) return error;
    found = 0;  // what it has no kernel for
  }
  results.resize(static_cast<size_t>(std::clamp(found, 0, count)));
  std::erase_if(results, [&](const auto& result) {
    return result.state != 0 || result.workspaceSize > workspace_bytes;
  });
  return results;
}

}  // namespace tunableop::lt
