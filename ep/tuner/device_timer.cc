#include "tuner/device_timer.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tunableop {
namespace {

constexpr int kMostColdCalls = 4;  // of a sample; each has two events and a fill
constexpr int kMostWarmCalls = 64;
constexpr size_t kLeadEnded = 2 * kMostColdCalls;  // its event; those before are of the calls
constexpr double kSampleMs = 0.050;
constexpr int kMostLead = 64;
constexpr int kMostRetakes = 2;
constexpr size_t kPieces = 12;  // of what is read in a flush: one takes what is read
constexpr size_t kUnknownCache = size_t{64} << 20;
constexpr size_t kShareOfMemory = 64;
constexpr size_t kLeastLead = size_t{32} << 20;  // so that a fill takes longer than its launch
constexpr int kOftenAtOnce = 3;                  // a host that was held up once sees that too

size_t TwiceTheCache(const Device& device) noexcept {
  const size_t cache = device.info().cache_bytes;
  return 2 * (cache != 0 ? cache : kUnknownCache);
}

int CallsFor(int calls, double expected_ms, int most) {
  if (expected_ms > 0.0) {
    calls = std::max(calls, static_cast<int>(std::min(std::ceil(kSampleMs / expected_ms), 1e6)));
  }
  return std::clamp(calls, 1, most);
}

}  // namespace

size_t DeviceTimer::BytesWanted(const Device& device) noexcept {
  return std::max(TwiceTheCache(device), kLeastLead);
}

Result<std::unique_ptr<DeviceTimer>> DeviceTimer::Create(MeasuringStream& stream,
                                                         size_t most_bytes) {
  std::unique_ptr<DeviceTimer> self(new DeviceTimer(stream));
  for (size_t i = 0; i <= kLeadEnded; ++i) {
    Result<DeviceEvent> event = stream.NewEvent();
    if (!event.ok()) return event.TakeStatus();
    self->events_.push_back(std::move(event.value()));
  }
  const size_t twice = TwiceTheCache(stream.device());
  const size_t wanted = BytesWanted(stream.device());
  // Of a card with a large cache and a large memory.
  most_bytes =
      std::max(most_bytes, std::min(twice, stream.device().info().memory_bytes / kShareOfMemory));
  for (size_t bytes = std::min(wanted, most_bytes); bytes >= 4096; bytes /= 2) {
    Result<void*> memory = stream.Allocate(bytes);
    if (memory.ok()) {
      self->buffer_ = memory.value();
      self->buffer_bytes_ = bytes;
      break;
    }
    if (memory.status().code() != StatusCode::kOutOfMemory) return memory.TakeStatus();
  }
  self->can_be_cold_ = self->buffer_bytes_ >= twice;
  self->cache_bytes_ = std::min(self->buffer_bytes_, twice);
  return self;
}

Status DeviceTimer::Fill(size_t bytes) {
  if (bytes == 0) return Status::Ok();
  return stream_.device().Fill(buffer_, ++value_, bytes, stream_.native());
}

Status DeviceTimer::Flush() {
  TUNABLEOP_RETURN_IF_ERROR(Fill(cache_bytes_));
  // What was written waits in the caches to be written back, and would be while the call runs. To
  // read as much again pushes it out before. There is no reading without writing, so all pieces go
  // to one place.
  const size_t piece = cache_bytes_ / kPieces;
  auto* const place = static_cast<char*>(buffer_);
  for (size_t i = 1; piece != 0 && i <= kPieces / 2; ++i) {
    TUNABLEOP_RETURN_IF_ERROR(stream_.device().Copy(place, place + i * piece, piece,
                                                    CopyKind::kDeviceToDevice, stream_.native()));
  }
  return Status::Ok();
}

Status DeviceTimer::IsDone(const DeviceEvent& event, bool& done) const {
  return stream_.device().QueryEvent(event.get(), done);
}

Status DeviceTimer::Between(size_t begin, size_t end, double& ms) const {
  return stream_.device().ElapsedMs(events_[begin].get(), events_[end].get(), ms);
}

Status DeviceTimer::First(const Call& call, double& ms) {
  ms = -1.0;
  TUNABLEOP_RETURN_IF_ERROR(stream_.Record(events_[0]));
  TUNABLEOP_RETURN_IF_ERROR(call());
  TUNABLEOP_RETURN_IF_ERROR(stream_.Record(events_[1]));
  TUNABLEOP_RETURN_IF_ERROR(stream_.Await(events_[1]));
  return Between(0, 1, ms);
}

Status DeviceTimer::FillMs(double& ms) {
  TUNABLEOP_RETURN_IF_ERROR(Flush());
  return First([this] { return Flush(); }, ms);
}

Status DeviceTimer::Measure(const Call& call, int calls, double expected_ms, Caches caches,
                            double& ms) {
  const bool cold = caches == Caches::kCold && can_be_cold_;
  calls = CallsFor(calls, expected_ms, cold ? kMostColdCalls : kMostWarmCalls);
  int& lead = lead_[cold ? 0 : 1];
  for (int i = 0;; ++i) {
    bool late = false;
    ms = -1.0;
    TUNABLEOP_RETURN_IF_ERROR(cold ? Cold(call, calls, ms, late) : Warm(call, calls, ms, late));
    if (!late || at_once_ != 0 || buffer_ == nullptr || lead >= kMostLead) return Status::Ok();
    lead = std::max(1, 2 * lead);
    if (i == kMostRetakes) return Status::Ok();
  }
}

Status DeviceTimer::Lead(int fills) {
  if (at_once_ >= kOftenAtOnce || fills == 0) return Status::Ok();
  for (int i = 0; i < fills; ++i) TUNABLEOP_RETURN_IF_ERROR(Fill(buffer_bytes_));
  TUNABLEOP_RETURN_IF_ERROR(stream_.Record(events_[kLeadEnded]));
  bool done = false;
  TUNABLEOP_RETURN_IF_ERROR(IsDone(events_[kLeadEnded], done));
  at_once_ = done ? at_once_ + 1 : 0;
  return Status::Ok();
}

Status DeviceTimer::Cold(const Call& call, int calls, double& ms, bool& late) {
  TUNABLEOP_RETURN_IF_ERROR(Lead(lead_[0]));
  late = false;
  const auto begin_of = [](int i) { return 2 * static_cast<size_t>(i); };
  for (int i = 0; i < calls; ++i) {
    const DeviceEvent& begin = events_[begin_of(i)];
    TUNABLEOP_RETURN_IF_ERROR(Flush());
    TUNABLEOP_RETURN_IF_ERROR(stream_.Record(begin));
    TUNABLEOP_RETURN_IF_ERROR(call());
    TUNABLEOP_RETURN_IF_ERROR(stream_.Record(events_[begin_of(i) + 1]));
    if (late) continue;
    TUNABLEOP_RETURN_IF_ERROR(IsDone(begin, late));
  }
  TUNABLEOP_RETURN_IF_ERROR(stream_.Await(events_[begin_of(calls - 1) + 1]));
  double sum = 0.0;
  for (int i = 0; i < calls; ++i) {
    double one = 0.0;
    TUNABLEOP_RETURN_IF_ERROR(Between(begin_of(i), begin_of(i) + 1, one));
    sum += one;
  }
  ms = sum / calls;
  return Status::Ok();
}

Status DeviceTimer::Warm(const Call& call, int calls, double& ms, bool& late) {
  TUNABLEOP_RETURN_IF_ERROR(Lead(lead_[1]));
  TUNABLEOP_RETURN_IF_ERROR(call());  // the lead has emptied the caches
  TUNABLEOP_RETURN_IF_ERROR(stream_.Record(events_[0]));
  for (int i = 0; i < calls; ++i) TUNABLEOP_RETURN_IF_ERROR(call());
  TUNABLEOP_RETURN_IF_ERROR(stream_.Record(events_[1]));
  TUNABLEOP_RETURN_IF_ERROR(IsDone(events_[0], late));
  TUNABLEOP_RETURN_IF_ERROR(stream_.Await(events_[1]));
  TUNABLEOP_RETURN_IF_ERROR(Between(0, 1, ms));
  ms /= calls;
  return Status::Ok();
}

}  // namespace tunableop
