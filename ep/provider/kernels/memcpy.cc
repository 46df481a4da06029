// MemcpyFromHost and MemcpyToHost, for tensors of every fixed-size type.
#include "provider/kernels/memcpy.h"

#include <memory>
#include <string>
#include <utility>

#include "provider/gpu/gpu_session.h"
#include "provider/guard.h"
#include "provider/kernels/kernel.h"
#include "provider/ort_runtime.h"
#include "provider/provider.h"

namespace tunableop {
namespace {

class Memcpy final : public OrtKernelImpl {
 public:
  Memcpy(std::shared_ptr<GpuSession> gpu, CopyKind kind)
      : OrtKernelImpl{}, gpu_(std::move(gpu)), kind_(kind) {
    ort_version_supported = Ort().version;
    OrtKernelImpl::Compute = [](OrtKernelImpl* self, OrtKernelContext* context) noexcept {
      return Guard([&] { return static_cast<Memcpy*>(self)->Copy(context); });
    };
    OrtKernelImpl::Release = [](OrtKernelImpl* self) noexcept {
      delete static_cast<Memcpy*>(self);
    };
  }

 private:
  Status Copy(OrtKernelContext* context) const {
    const OrtValue* from = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->KernelContext_GetInput(context, 0, &from));
    Result<TensorView> source = ViewOf(from);
    if (!source.ok()) return source.TakeStatus();
    OrtValue* to = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->KernelContext_GetOutput(
        context, 0, source.value().dims.data(), source.value().dims.size(), &to));
    size_t bytes = 0;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorSizeInBytes(to, &bytes));
    if (bytes == 0) return Status::Ok();
    void* target = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorMutableData(to, &target));
    if (source.value().data == nullptr || target == nullptr) return NoMemory(*gpu_);
    Result<const DeviceQueue*> queue = gpu_->QueueOf(context);
    if (!queue.ok()) return queue.TakeStatus();
    const NativeStream stream = queue.value()->stream();
    TUNABLEOP_RETURN_IF_ERROR(
        gpu_->device().Copy(target, source.value().data, bytes, kind_, stream));
    // Whoever reads the host's memory next does not wait for a stream. And page-locked memory is
    // given to the next user when ONNX Runtime frees it, though the card may still read it.
    if (kind_ == CopyKind::kHostToDevice && !IsPageLocked(from)) return Status::Ok();
    return gpu_->device().Synchronize(stream);
  }

  static bool IsPageLocked(const OrtValue* value) noexcept {
    const OrtEpApi& api = *Ort().ep_api;
    return api.MemoryDevice_GetMemoryType(api.Value_GetMemoryDevice(value)) ==
           OrtDeviceMemoryType_HOST_ACCESSIBLE;
  }

  const std::shared_ptr<GpuSession> gpu_;
  const CopyKind kind_;
};

OrtStatus* Create(const OrtKernelInfo* info, CopyKind kind, OrtKernelImpl** kernel) noexcept {
  *kernel = nullptr;
  return Guard([&]() -> Status {
    const OrtEp* ep = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->KernelInfo_GetEp(info, &ep));
    *kernel = new Memcpy(static_cast<const Provider*>(ep)->gpu(), kind);
    return Status::Ok();
  });
}

}  // namespace

OrtStatus* CreateMemcpyFromHost(void* /*state*/, const OrtKernelInfo* info,
                                OrtKernelImpl** kernel) noexcept {
  return Create(info, CopyKind::kHostToDevice, kernel);
}

OrtStatus* CreateMemcpyToHost(void* /*state*/, const OrtKernelInfo* info,
                              OrtKernelImpl** kernel) noexcept {
  return Create(info, CopyKind::kDeviceToHost, kernel);
}

}  // namespace tunableop
