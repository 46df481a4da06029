// Creates providers for ONNX Runtime: OrtEpFactory.
#pragma once

#include <array>
#include <mutex>
#include <string>

#include "abi/ort_c_api.h"
#include "gemm/status.h"

namespace tunableop {

// Lives until the process ends: ONNX Runtime may release sessions after it released the factory,
// and releases a provider through the factory that made it.
class Factory final : public OrtEpFactory {
 public:
  Factory();
  Factory(const Factory&) = delete;
  Factory& operator=(const Factory&) = delete;

  // The process's logger, which dies with ONNX Runtime's environment: every registration brings the
  // one that is alive. Thread-safe.

  // The operators of kernels/ on the CPU, or on a card: each registered once. Thread-safe: sessions
  // are made on any thread.
  Result<const OrtKernelRegistry*> Registry(bool for_card);

 private:
  static const char* GetNameImpl(const OrtEpFactory* self) noexcept;
  static const char* GetVendorImpl(const OrtEpFactory* self) noexcept;
  static uint32_t GetVendorIdImpl(const OrtEpFactory* self) noexcept;
  static const char* GetVersionImpl(const OrtEpFactory* self) noexcept;
  static OrtStatus* GetSupportedDevicesImpl(OrtEpFactory* self,
                                            const OrtHardwareDevice* const* devices,
                                            size_t device_count, OrtEpDevice** ep_devices,
                                            size_t max_ep_devices,
                                            size_t* ep_device_count) noexcept;
  static OrtStatus* CreateEpImpl(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                 const OrtKeyValuePairs* const* metadata, size_t device_count,
                                 const OrtSessionOptions* session_options, const OrtLogger* logger,
                                 OrtEp** ep) noexcept;
  static void ReleaseEpImpl(OrtEpFactory* self, OrtEp* ep) noexcept;
  static OrtStatus* CreateAllocatorImpl(OrtEpFactory* self, const OrtMemoryInfo* info,
                                        const OrtKeyValuePairs* options,
                                        OrtAllocator** allocator) noexcept;
  static void ReleaseAllocatorImpl(OrtEpFactory* self, OrtAllocator* allocator) noexcept;
  static OrtStatus* CreateDataTransferImpl(OrtEpFactory* self,
                                           OrtDataTransferImpl** transfer) noexcept;
  static bool IsStreamAwareImpl(const OrtEpFactory* self) noexcept;

  std::mutex registry_mutex_;
  std::array<OrtKernelRegistry*, 2> registries_{};  // the CPU's, a card's
};

}  // namespace tunableop
