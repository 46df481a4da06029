// How long a call takes on a card, between two events on its stream.
//
// What is measured: from the moment at which the card has done what came before, to the end of the
// call's last kernel. So it contains the gap between two kernels in a stream, about a microsecond,
// which a real run has too, and not the launch on the host: each sample begins with work that keeps
// the card busy until all of it is queued (a query at the end tells; when the card was faster, the
// sample is taken again with more of it).
//
// Cold: before each call, memory of twice the card's last cache is written, so that operands and
// code come from memory, as they do when the weights of other layers have passed by. Each call has
// events of its own. Warm: after an untimed call, as many calls as fill 50 us, between one pair of
// events, whose resolution is half a microsecond at worst.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "gemm/device_memory.h"
#include "gemm/status.h"
#include "tuner/device_stream.h"

namespace tunableop {

enum class Caches : uint8_t { kCold, kWarm };

// Used by the one thread that measures.
class DeviceTimer {
 public:
  using Call = std::function<Status()>;  // queues one call

  // `most_bytes`: for the memory that is overwritten, or 1/64 of the card's where that is more and
  // its cache needs it. Where there is less than twice the cache, CanBeCold() is false, and kCold
  // is timed as kWarm. `stream` must outlive this.
  static Result<std::unique_ptr<DeviceTimer>> Create(MeasuringStream& stream, size_t most_bytes);

  // What it has use for.
  static size_t BytesWanted(const Device& device) noexcept;

  bool CanBeCold() const noexcept { return can_be_cold_; }

  // The mean milliseconds of a call, over at least `calls`, or as many as `expected_ms` asks for
  // (0: not known). Waits for them. The error of a call, or of what was queued.
  Status Measure(const Call& call, int calls, double expected_ms, Caches caches, double& ms);

  // Of overwriting the caches once, from then on: what they hold twice over.
  Status FillMs(double& ms);

  // One call as it comes: too long by the launch, and by whatever it does at its first time.
  Status First(const Call& call, double& ms);

 private:
  explicit DeviceTimer(MeasuringStream& stream) : stream_(stream) {}
  Status Fill(size_t bytes);
  // Leaves nothing of what was there in the caches, and little that is still to be written back.
  Status Flush();
  // Work to hide launches behind.
  Status Lead(int fills);
  // `late`: the card had to wait for the host.
  Status Cold(const Call& call, int calls, double& ms, bool& late);
  Status Warm(const Call& call, int calls, double& ms, bool& late);
  Status Between(size_t begin, size_t end, double& ms) const;
  Status IsDone(const DeviceEvent& event, bool& done) const;

  MeasuringStream& stream_;
  std::vector<DeviceEvent> events_;
  void* buffer_ = nullptr;  // null: there was no memory
  size_t buffer_bytes_ = 0;
  size_t cache_bytes_ = 0;  // of the buffer: twice the cache
  bool can_be_cold_ = false;
  uint8_t value_ = 0;
  int lead_[2] = {0, 1};  // fills before a sample, by Caches
  // Samples in a row whose lead was over as soon as it was queued: a stream that runs everything at
  // once (a simulated one), where nothing can be hidden.
  int at_once_ = 0;
};

}  // namespace tunableop
