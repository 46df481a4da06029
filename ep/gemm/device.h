// A card with memory of its own, seen from the tuner and the provider. A CPU needs none of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gemm/status.h"

namespace tunableop {

// A stream and an event of the vendor's runtime (cudaStream_t, hipEvent_t ...). A null stream is
// the legacy default stream.
using NativeStream = void*;
using NativeEvent = void*;
// A graph of work that can be launched as a whole (cudaGraphExec_t, hipGraphExec_t).
using NativeGraph = void*;
// Code that was loaded on a card, and a kernel in it (CUmodule, hipFunction_t ...).
using NativeModule = void*;
using NativeFunction = void*;

enum class CopyKind : uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };

struct DeviceInfo {
  std::string name;        // "NVIDIA H200"
  std::string arch;        // "sm_90"; "gfx942": without the features that follow a colon
  std::string pci_bus_id;  // "0000:00:06.0", lower case; empty: not known
  int compute_units = 0;   // multiprocessors
  size_t memory_bytes = 0;
  size_t cache_bytes = 0;  // the last cache before the memory; 0: not known
  int driver_version = 0;  // as the runtime gives them: 13000 is CUDA 13.0
  int runtime_version = 0;
};

// How many blocks a kernel is launched with, of how many threads.
struct LaunchShape {
  uint32_t grid_x = 1;
  uint32_t grid_y = 1;
  uint32_t grid_z = 1;
  uint32_t block = 1;
  uint32_t shared_bytes = 0;  // on top of what the kernel declares
};

// One card through its vendor's runtime. Thread-safe. Every call makes the card the calling
// thread's current one and puts back what was current before it returns. Nothing throws.
//
// Errors: kOutOfMemory; kNotFound: no such card, or no driver; kInternal, with the runtime's words,
// for the rest. After an error that a card does not recover from (a lost device, an illegal
// address) lost() is true, and everything fails; so it is in a child of fork.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view backend() const noexcept = 0;  // "cuda", "hip"
  virtual uint32_t vendor_id() const noexcept = 0;        // PCI: 0x10DE, 0x1002
  virtual int ordinal() const noexcept = 0;               // as the runtime counts
  virtual const DeviceInfo& info() const noexcept = 0;
  virtual bool lost() const noexcept = 0;

  // Memory of the card, aligned to 256 bytes. Free waits for nothing by itself, but the vendor's
  // does: it synchronises the card (see GiveUpOn).
  virtual Result<void*> Allocate(size_t bytes) const = 0;
  virtual void Free(void* memory) const noexcept = 0;
  // Page-locked memory of the host: copies to and from it are asynchronous.
  virtual Result<void*> AllocateHost(size_t bytes) const = 0;
  virtual void FreeHost(void* memory) const noexcept = 0;
  virtual Status MemoryInfo(size_t& free_bytes, size_t& total_bytes) const = 0;

  // In the stream's order. From and to ordinary host memory they return when the host's side is
  // done with.
  virtual Status Copy(void* to, const void* from, size_t bytes, CopyKind kind,
                      NativeStream stream) const = 0;
  // On the card: `rows` times `width` bytes, which lie `to_step` and `from_step` bytes apart,
  // none less than its width. The two do not overlap.
  virtual Status CopyRows(void* to, size_t to_step, const void* from, size_t from_step,
                          size_t width, size_t rows, NativeStream stream) const = 0;
  // Sets every byte.
  virtual Status Fill(void* to, uint8_t value, size_t bytes, NativeStream stream) const = 0;

  // Streams do not wait for the legacy default stream.
  virtual Result<NativeStream> CreateStream() const = 0;
  virtual void DestroyStream(NativeStream stream) const noexcept = 0;
  // Waits until all that was queued is done, and reports what went wrong in it.
  virtual Status Synchronize(NativeStream stream) const = 0;
  // A graph is being captured: nothing may be allocated, waited for or measured.
  virtual bool IsCapturing(NativeStream stream) const noexcept = 0;

  // From here on what this thread queues on the stream is recorded instead of done. Other threads
  // and other streams are not concerned. kNotSupported: the runtime has no graphs.
  virtual Status BeginCapture(NativeStream stream) const;
  // On the same thread: ends the recording, whatever became of it. An error, where something was
  // done that cannot be recorded; the stream can be used again all the same.
  virtual Result<NativeGraph> EndCapture(NativeStream stream) const;
  // Queues all of it, on any stream of the card.
  virtual Status LaunchGraph(NativeGraph graph, NativeStream stream) const;
  // Nothing of it may be running.
  virtual void DestroyGraph(NativeGraph graph) const noexcept;

  virtual Result<NativeEvent> CreateEvent() const = 0;  // with timing
  virtual void DestroyEvent(NativeEvent event) const noexcept = 0;
  virtual Status RecordEvent(NativeEvent event, NativeStream stream) const = 0;
  // What is queued after this waits for the event.
  virtual Status WaitEvent(NativeStream stream, NativeEvent event) const = 0;
  // Without waiting. An error of what was queued before is an error here.
  virtual Status QueryEvent(NativeEvent event, bool& done) const = 0;
  virtual Status SynchronizeEvent(NativeEvent event) const = 0;
  // Between two events that are done.
  virtual Status ElapsedMs(NativeEvent begin, NativeEvent end, double& ms) const = 0;

  // Whether code can be loaded here at all; asks nothing of the card. kNotSupported: which library
  // lacks what.
  virtual Status CanLoadModules() const = 0;
  // `code` is what the vendor's compiler made for this card: a cubin, a code object, or PTX with
  // the zero at its end. kNotSupported: as above, or the card cannot run this code.
  virtual Result<NativeModule> LoadModule(std::span<const std::byte> code) const = 0;
  // What was launched of it must have ended.
  virtual void UnloadModule(NativeModule module) const noexcept = 0;
  // Lives as long as the module. kNotFound: it has no kernel of this name.
  virtual Result<NativeFunction> FunctionOf(NativeModule module, const char* name) const = 0;
  // `args`: the kernel's one parameter, a struct by value; copied before this returns. Takes no
  // lock and allocates nothing where it succeeds. May be captured into a graph.
  virtual Status Launch(NativeFunction function, const LaunchShape& shape, const void* args,
                        NativeStream stream) const = 0;

  // Something here does not end, and `event`, which becomes the device's, was recorded behind it.
  // Until it has happened stuck() is true, and what Free and FreeHost are given is kept, and freed
  // after that: the vendor's would wait for it.
  virtual void GiveUpOn(NativeEvent event) const noexcept = 0;
  virtual bool stuck() const noexcept = 0;

  // Makes the card current on this thread; returns what was, for Restore. For calls of libraries
  // that take it from there. A few tens of nanoseconds.
  virtual int MakeCurrent() const noexcept = 0;
  virtual void Restore(int previous) const noexcept = 0;

  // From here on what other threads capture into graphs forbids this thread no calls, and is not
  // spoiled by them; returns what was, for HeedCaptures. The card is current.
  virtual int IgnoreCaptures() const noexcept = 0;
  virtual void HeedCaptures(int previous) const noexcept = 0;
};

inline Status Device::BeginCapture(NativeStream /*stream*/) const {
  return {StatusCode::kNotSupported, "this card's runtime has no graphs"};
}
inline Result<NativeGraph> Device::EndCapture(NativeStream /*stream*/) const {
  return Status(StatusCode::kNotSupported, "this card's runtime has no graphs");
}
inline Status Device::LaunchGraph(NativeGraph /*graph*/, NativeStream /*stream*/) const {
  return {StatusCode::kNotSupported, "this card's runtime has no graphs"};
}
inline void Device::DestroyGraph(NativeGraph /*graph*/) const noexcept {}

// The card is current on this thread while this lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(const Device& device) noexcept
      : device_(device), previous_(device.MakeCurrent()) {}
  ~CurrentDevice() { device_.Restore(previous_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const Device& device_;
  const int previous_;
};

// The same for calls of libraries that allocate, load code or wait for the card, which spoil what
// any thread captures unless that is ignored.
class CurrentAside {
 public:
  explicit CurrentAside(const Device& device) noexcept
      : device_(device), current_(device), previous_(device.IgnoreCaptures()) {}
  ~CurrentAside() { device_.HeedCaptures(previous_); }
  CurrentAside(const CurrentAside&) = delete;
  CurrentAside& operator=(const CurrentAside&) = delete;

 private:
  const Device& device_;
  const CurrentDevice current_;
  const int previous_;
};

}  // namespace tunableop
