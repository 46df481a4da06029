// A Device over a vendor's runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/module_api.h"
#include "backends/gpu/runtime_api.h"
#include "gemm/device.h"
#include "gemm/status.h"

namespace tunableop {

class RuntimeDevice final : public Device {
 public:
  // `api` and `modules` are copied; their libraries stay loaded for good. Makes nothing on the
  // card: the vendor's context, which takes memory and time, comes with the first call that needs
  // it.
  RuntimeDevice(const RuntimeApi& api, int ordinal, DeviceInfo info, ModuleApi modules = {});

  std::string_view backend() const noexcept override { return api_.prefix; }
  uint32_t vendor_id() const noexcept override { return api_.vendor_id; }
  int ordinal() const noexcept override { return ordinal_; }
  const DeviceInfo& info() const noexcept override { return info_; }
  bool lost() const noexcept override;

  Result<void*> Allocate(size_t bytes) const override;
  void Free(void* memory) const noexcept override;
  Result<void*> AllocateHost(size_t bytes) const override;
  void FreeHost(void* memory) const noexcept override;
  Status MemoryInfo(size_t& free_bytes, size_t& total_bytes) const override;

  Status Copy(void* to, const void* from, size_t bytes, CopyKind kind,
              NativeStream stream) const override;
  Status CopyRows(void* to, size_t to_step, const void* from, size_t from_step, size_t width,
                  size_t rows, NativeStream stream) const override;
  Status Fill(void* to, uint8_t value, size_t bytes, NativeStream stream) const override;

  Result<NativeStream> CreateStream() const override;
  void DestroyStream(NativeStream stream) const noexcept override;
  Status Synchronize(NativeStream stream) const override;
  bool IsCapturing(NativeStream stream) const noexcept override;

  // runtime_graphs.cc.
  Status BeginCapture(NativeStream stream) const override;
  Result<NativeGraph> EndCapture(NativeStream stream) const override;
  Status LaunchGraph(NativeGraph graph, NativeStream stream) const override;
  void DestroyGraph(NativeGraph graph) const noexcept override;

  Result<NativeEvent> CreateEvent() const override;
  void DestroyEvent(NativeEvent event) const noexcept override;
  Status RecordEvent(NativeEvent event, NativeStream stream) const override;
  Status WaitEvent(NativeStream stream, NativeEvent event) const override;
  Status QueryEvent(NativeEvent event, bool& done) const override;
  Status SynchronizeEvent(NativeEvent event) const override;
  Status ElapsedMs(NativeEvent begin, NativeEvent end, double& ms) const override;

  Status CanLoadModules() const override;
  Result<NativeModule> LoadModule(std::span<const std::byte> code) const override;
  void UnloadModule(NativeModule module) const noexcept override;
  Result<NativeFunction> FunctionOf(NativeModule module, const char* name) const override;
  Status Launch(NativeFunction function, const LaunchShape& shape, const void* args,
                NativeStream stream) const override;

  void GiveUpOn(NativeEvent event) const noexcept override;
  bool stuck() const noexcept override;

  int MakeCurrent() const noexcept override;
  void Restore(int previous) const noexcept override;
  int IgnoreCaptures() const noexcept override;
  void HeedCaptures(int previous) const noexcept override;

 private:
  class Scope;
  enum class Capture : uint8_t {
    kObey,    // what another thread captures may forbid this call
    kIgnore,  // has nothing to do with a capture, and must not disturb one
  };

  // The code of function(arguments...), called with this card current.
  template <typename Function, typename... Arguments>
  int Call(Capture capture, Function function, Arguments... arguments) const noexcept;
  // The same for functions that ask for a context on this thread, as CUDA's driver does.
  template <typename Function>
  int CallInContext(Capture capture, const Function& function) const noexcept;
  // Makes the card current: the code, and what was.
  int Enter(int& previous) const noexcept;
  // To be done with every code but success: takes it back from the thread's "last error", where
  // others would find it, and sees whether the card is lost.
  void Note(int code) const noexcept;
  // `what` was being done: "allocating 4096 bytes".
  Status Check(int code, std::string_view what) const;
  Status Lost() const;
  struct Kept {
    void* memory;
    bool of_host;
  };
  void FreeNow(const Kept& one) const noexcept;
  // True: the card is stuck, and it is freed later.
  bool Keep(const Kept& one) const noexcept;

  const RuntimeApi api_;
  const ModuleApi modules_;
  const int ordinal_;
  const DeviceInfo info_;
  const uint64_t forks_;  // of the process that made this
  mutable std::atomic<bool> lost_{false};
  mutable std::atomic<int> lost_code_{0};
  mutable std::atomic<bool> stuck_{false};
  mutable std::mutex stuck_mutex_;
  mutable std::vector<NativeEvent> given_up_;  // not happened yet, as far as is known
  mutable std::vector<Kept> kept_;
};

}  // namespace tunableop
