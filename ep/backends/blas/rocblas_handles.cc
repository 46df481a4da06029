#include "backends/blas/rocblas_handles.h"

#include <new>
#include <utility>

namespace tunableop::blas {

Result<RocblasHandle> RocblasHandle::Create(std::shared_ptr<const Device> device,
                                            std::shared_ptr<const RocblasLibrary> library) {
  const CurrentAside current(*device);
  RocblasHandle made;
  TUNABLEOP_RETURN_IF_ERROR(
      ToStatus("rocblas_create_handle", library->create_handle(&made.handle_)));
  made.device_ = std::move(device);
  made.library_ = std::move(library);
  const RocblasLibrary& rocblas = *made.library_;
  TUNABLEOP_RETURN_IF_ERROR(
      ToStatus("rocblas_set_pointer_mode",
               rocblas.set_pointer_mode(made.handle_, hip_abi::rocblas_pointer_mode_host)));
  // Sums in the order in which threads arrive are another answer in each call.
  TUNABLEOP_RETURN_IF_ERROR(
      ToStatus("rocblas_set_atomics_mode",
               rocblas.set_atomics_mode(made.handle_, hip_abi::rocblas_atomics_not_allowed)));
  return made;
}

RocblasHandle::~RocblasHandle() {
  if (handle_ == nullptr || library_ == nullptr) return;
  // What it frees would wait for a kernel that does not end.
  if (device_->lost() || device_->stuck()) return;
  const CurrentAside current(*device_);
  library_->destroy_handle(handle_);
}

QueueHandles* QueueHandles::Of(const DeviceQueue& queue,
                               const std::shared_ptr<const RocblasLibrary>& library) noexcept {
  QueueState* state = queue.state(kSlot);
  if (state == nullptr) {
    try {
      state = queue.SetState(kSlot, std::make_unique<QueueHandles>(library));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  return static_cast<QueueHandles*>(state);
}

Result<QueueHandles::Lease> QueueHandles::Take(const DeviceQueue& queue) noexcept {
  while (true) {
    const size_t made = made_.load(std::memory_order_acquire);
    for (size_t i = 0; i < made; ++i) {
      Entry& entry = entries_[i];
      if (!entry.busy.exchange(true, std::memory_order_acquire)) {
        return Lease(entry.handle.get(), entry.busy);
      }
    }
    if (made < kMost && !queue.device().IsCapturing(queue.stream())) {
      TUNABLEOP_RETURN_IF_ERROR(Make(queue, made));
    } else if (made > 0) {
      entries_[0].busy.wait(true, std::memory_order_acquire);
    } else {
      return Status(StatusCode::kBusy,
                    "rocBLAS has no handle on this stream yet, and none can be made while a graph "
                    "is captured");
    }
  }
}

Status QueueHandles::Make(const DeviceQueue& queue, size_t seen) noexcept {
  const std::lock_guard lock(mutex_);
  if (made_.load(std::memory_order_relaxed) > seen) return Status::Ok();
  const CurrentAside current(queue.device());  // its own memory goes when it is given ours
  Result<RocblasHandle> made = RocblasHandle::Create(queue.shared_device(), library_);
  if (!made.ok()) return made.TakeStatus();
  void* const handle = made.value().get();
  TUNABLEOP_RETURN_IF_ERROR(
      ToStatus("rocblas_set_stream", library_->set_stream(handle, queue.stream())));
  // rocBLAS then never allocates: a kernel that needs more fails. Without a workspace it manages
  // memory itself.
  TUNABLEOP_RETURN_IF_ERROR(
      ToStatus("rocblas_set_workspace",
               library_->set_workspace(handle, queue.workspace(), queue.workspace_bytes())));
  entries_[seen].handle = std::move(made.value());
  made_.store(seen + 1, std::memory_order_release);
  return Status::Ok();
}

}  // namespace tunableop::blas
