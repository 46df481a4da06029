// One execution provider object for each session: OrtEp.
#pragma once

#include <memory>
#include <string>

#include "abi/ort_c_api.h"
#include "provider/gpu/gpu_session.h"
#include "provider/session_state.h"

namespace tunableop {

inline constexpr char kProviderName[] = "TunableOpExecutionProvider";
inline constexpr char kOptionPrefix[] = "ep.tunableopexecutionprovider.";

class Provider final : public OrtEp {
 public:
  // `registry` is the factory's and outlives every provider. `gpu` is null on a CPU.
  // `process_log` is for the end: ONNX Runtime 1.24 destroys a session's logger before its
  // providers.
  Provider(std::shared_ptr<SessionState> state, std::shared_ptr<GpuSession> gpu,
           const OrtKernelRegistry* registry, Log process_log);
  ~Provider();  // saves the session's cache when the option `cache` asks for it
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

  const std::shared_ptr<SessionState>& state() const noexcept { return state_; }
  // Null on a CPU.
  const std::shared_ptr<GpuSession>& gpu() const noexcept { return gpu_; }

 private:
  static const char* GetNameImpl(const OrtEp* self) noexcept;
  static OrtStatus* GetCapabilityImpl(OrtEp* self, const OrtGraph* graph,
                                      OrtEpGraphSupportInfo* support) noexcept;
  static OrtStatus* CompileImpl(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                size_t count, OrtNodeComputeInfo** infos,
                                OrtNode** ep_context_nodes) noexcept;
  static void ReleaseNodeComputeInfosImpl(OrtEp* self, OrtNodeComputeInfo** infos,
                                          size_t count) noexcept;
  static OrtStatus* GetKernelRegistryImpl(OrtEp* self, const OrtKernelRegistry** registry) noexcept;
  static OrtStatus* SetDynamicOptionsImpl(OrtEp* self, const char* const* keys,
                                          const char* const* values, size_t count) noexcept;
  static OrtStatus* OnSessionInitializationEndImpl(OrtEp* self) noexcept;
  static OrtStatus* CreateProfilerImpl(OrtEp* self, OrtEpProfilerImpl** profiler) noexcept;
  static OrtStatus* OnRunStartImpl(OrtEp* self, const OrtRunOptions* options) noexcept;
  static OrtStatus* OnRunEndImpl(OrtEp* self, const OrtRunOptions* options, bool sync) noexcept;
  static OrtStatus* IsConcurrentRunSupportedImpl(OrtEp* self, bool* supported) noexcept;
  static OrtStatus* CreateAllocatorImpl(OrtEp* self, const OrtMemoryInfo* info,
                                        OrtAllocator** allocator) noexcept;
  static bool IsGraphCaptureEnabledImpl(const OrtEp* self) noexcept;
  static bool IsGraphCapturedImpl(const OrtEp* self, int id) noexcept;
  static OrtStatus* ReplayGraphImpl(OrtEp* self, int id) noexcept;
  static OrtStatus* ReleaseCapturedGraphImpl(OrtEp* self, int id) noexcept;
  static OrtGraphCaptureNodeAssignmentPolicy GraphPolicyImpl(const OrtEp* self) noexcept;
  static OrtStatus* SyncImpl(OrtEp* self) noexcept;

  Status SetDynamicOption(std::string_view key, std::string_view value);

  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GpuSession> gpu_;
  const OrtKernelRegistry* registry_;
  const Log process_log_;
};

}  // namespace tunableop
