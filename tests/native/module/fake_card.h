// A make-believe card for tests of the tuner: ordinary memory with a check of addresses, a virtual
// clock, streams whose work takes prescribed time, and faults that can be switched on.
//
// What is queued is done at once, as far as memory is concerned; the time at which it would be done
// is kept for each stream. The host's clock advances with each call (a launch costs the host time
// too), with each look at an event, and where the host waits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gemm/device.h"

namespace tunableop::bindings {

struct FakeCardScript {
  size_t memory_bytes = size_t{1} << 30;
  size_t cache_bytes = size_t{1} << 20;
  double launch_us = 2.0;       // of the host, for each thing that is queued
  double query_us = 1.0;        // of the host, for a look at an event
  double bytes_per_us = 4e6;    // of fills and copies
  double resolution_us = 0.5;   // of an event
  double busy_ms = 0.0;         // of the session's stream, when tuning begins
  bool capturing = false;       // on the session's stream
  int64_t fail_allocation = 0;  // the first so many succeed, and no other; 0: all do
  bool no_pinned = false;
  bool at_once = false;  // streams are done with everything as soon as it is queued
};

// Thread-safe.
class FakeCard final : public Device {
 public:
  explicit FakeCard(FakeCardScript script);
  ~FakeCard() override;

  std::string_view backend() const noexcept override { return "fake"; }
  uint32_t vendor_id() const noexcept override { return 0; }
  int ordinal() const noexcept override { return 0; }
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
  Result<NativeEvent> CreateEvent() const override;
  void DestroyEvent(NativeEvent event) const noexcept override;
  Status RecordEvent(NativeEvent event, NativeStream stream) const override;
  Status WaitEvent(NativeStream stream, NativeEvent event) const override;
  Status QueryEvent(NativeEvent event, bool& done) const override;
  Status SynchronizeEvent(NativeEvent event) const override;
  Status ElapsedMs(NativeEvent begin, NativeEvent end, double& ms) const override;
  // No code can be loaded here.
  Status CanLoadModules() const override;
  Result<NativeModule> LoadModule(std::span<const std::byte> code) const override;
  void UnloadModule(NativeModule /*module*/) const noexcept override {}
  Result<NativeFunction> FunctionOf(NativeModule module, const char* name) const override;
  Status Launch(NativeFunction function, const LaunchShape& shape, const void* args,
                NativeStream stream) const override;
  void GiveUpOn(NativeEvent event) const noexcept override;
  bool stuck() const noexcept override;
  int MakeCurrent() const noexcept override { return 0; }
  void Restore(int /*previous*/) const noexcept override {}
  int IgnoreCaptures() const noexcept override { return 0; }
  void HeedCaptures(int /*previous*/) const noexcept override {}

  // For kernels. A launch of one that takes `ms`, or `warm_ms` when another one ran since the
  // caches were overwritten last; `host_ms`: what the launch costs the host on top.
  Status Launch(NativeStream stream, double ms, double warm_ms, double host_ms) const;
  void Hang(NativeStream stream) const;     // what was launched last never ends
  void Lose(const std::string& why) const;  // an illegal address, say
  // Whether the card may touch all of it.
  bool IsMine(const void* memory, size_t bytes) const;

  int64_t NowNs() const;
  void Wait(double ms) const;

  struct Stats {
    int64_t allocated = 0;         // bytes at this moment
    int64_t most_allocated = 0;    // bytes at any one
    int64_t pinned = 0;            // bytes at this moment
    int64_t streams = 0;           // that live
    int64_t events = 0;            // that live
    int64_t given_up = 0;          // events behind what does not end
    int64_t freed_while_hung = 0;  // calls that would have waited for ever
    int64_t waited_while_hung = 0;
    double filled_bytes = 0.0;
  };
  Stats stats() const;

 private:
  struct Stream {
    int64_t end_ns = 0;
    bool session = false;
  };
  struct Event {
    int64_t at_ns = 0;
  };

  Result<void*> AllocateLocked(size_t bytes, std::map<const char*, size_t>& where) const;
  void Queue(Stream& stream, double ms) const;
  void WaitFor(int64_t ns) const;
  bool Covers(const std::map<const char*, size_t>& where, const void* memory, size_t bytes) const;

  const FakeCardScript script_;
  DeviceInfo info_;
  mutable std::mutex mutex_;
  mutable int64_t now_ns_ = 0;
  mutable std::map<const char*, size_t> memory_;
  mutable std::map<const char*, size_t> pinned_;
  mutable std::set<Stream*> streams_;
  mutable std::set<Event*> events_;
  mutable std::vector<Event*> given_up_;  // of events_
  mutable Stats stats_;
  mutable int64_t allocations_ = 0;
  mutable bool cold_ = true;
  mutable bool hung_ = false;
  mutable std::string lost_;
};

}  // namespace tunableop::bindings
