#include "module/fake_card.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace tunableop::bindings {
namespace {

constexpr int64_t kNever = INT64_MAX / 4;
constexpr size_t kAlignment = 256;

Status Lost(const std::string& why) { return {StatusCode::kInternal, why}; }

}  // namespace

FakeCard::FakeCard(FakeCardScript script) : script_(script) {
  info_.name = "Fake Card";
  info_.arch = "fake_1";
  info_.memory_bytes = script_.memory_bytes;
  info_.cache_bytes = script_.cache_bytes;
}

// What was abandoned is freed here after all: no kernel is left that could use it.
FakeCard::~FakeCard() {
  for (const auto& [memory, bytes] : memory_) std::free(const_cast<char*>(memory));
  for (const auto& [memory, bytes] : pinned_) std::free(const_cast<char*>(memory));
  for (Stream* stream : streams_) delete stream;
  for (Event* event : events_) delete event;
}

bool FakeCard::lost() const noexcept {
  const std::lock_guard lock(mutex_);
  return !lost_.empty();
}

Result<void*> FakeCard::AllocateLocked(size_t bytes, std::map<const char*, size_t>& where) const {
  if (!lost_.empty()) return Lost(lost_);
  ++allocations_;
  const bool too_many = script_.fail_allocation != 0 && allocations_ > script_.fail_allocation;
  if (too_many || static_cast<size_t>(stats_.allocated) + bytes > script_.memory_bytes) {
    return Status(StatusCode::kOutOfMemory, "out of memory on the fake card");
  }
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) return Status(StatusCode::kOutOfMemory, "out of memory on the host");
  std::memset(memory, 0x5A, bytes);  // nobody may count on zeros
  where.emplace(static_cast<const char*>(memory), bytes);
  return memory;
}

Result<void*> FakeCard::Allocate(size_t bytes) const {
  const std::lock_guard lock(mutex_);
  Result<void*> memory = AllocateLocked(bytes, memory_);
  if (memory.ok()) {
    stats_.allocated += static_cast<int64_t>(bytes);
    stats_.most_allocated = std::max(stats_.most_allocated, stats_.allocated);
  }
  return memory;
}

void FakeCard::Free(void* memory) const noexcept {
  const std::lock_guard lock(mutex_);
  if (hung_) ++stats_.freed_while_hung;
  const auto found = memory_.find(static_cast<const char*>(memory));
  if (found == memory_.end()) std::abort();  // freed twice, or not ours
  stats_.allocated -= static_cast<int64_t>(found->second);
  memory_.erase(found);
  std::free(memory);
}

Result<void*> FakeCard::AllocateHost(size_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (script_.no_pinned) return Status(StatusCode::kOutOfMemory, "no page-locked memory");
  Result<void*> memory = AllocateLocked(bytes, pinned_);
  if (memory.ok()) stats_.pinned += static_cast<int64_t>(bytes);
  return memory;
}

void FakeCard::FreeHost(void* memory) const noexcept {
  const std::lock_guard lock(mutex_);
  if (hung_) ++stats_.freed_while_hung;
  const auto found = pinned_.find(static_cast<const char*>(memory));
  if (found == pinned_.end()) std::abort();
  stats_.pinned -= static_cast<int64_t>(found->second);
  pinned_.erase(found);
  std::free(memory);
}

Status FakeCard::MemoryInfo(size_t& free_bytes, size_t& total_bytes) const {
  const std::lock_guard lock(mutex_);
  total_bytes = script_.memory_bytes;
  free_bytes = script_.memory_bytes - static_cast<size_t>(stats_.allocated);
  return Status::Ok();
}

bool FakeCard::Covers(const std::map<const char*, size_t>& where, const void* memory,
                      size_t bytes) const {
  const auto* begin = static_cast<const char*>(memory);
  auto found = where.upper_bound(begin);
  if (found == where.begin()) return false;
  --found;
  return begin + bytes <= found->first + found->second;
}

bool FakeCard::IsMine(const void* memory, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  return Covers(memory_, memory, bytes);
}

void FakeCard::Queue(Stream& stream, double ms) const {
  now_ns_ += static_cast<int64_t>(script_.launch_us * 1e3);
  if (stream.end_ns >= kNever) return;
  stream.end_ns = std::max(stream.end_ns, now_ns_) + static_cast<int64_t>(ms * 1e6);
  if (script_.at_once) now_ns_ = stream.end_ns;
}

void FakeCard::WaitFor(int64_t ns) const {
  if (ns >= kNever) {
    ++stats_.waited_while_hung;
    return;
  }
  now_ns_ = std::max(now_ns_, ns);
}

Status FakeCard::Copy(void* to, const void* from, size_t bytes, CopyKind kind,
                      NativeStream stream) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  const bool from_card = kind != CopyKind::kHostToDevice;
  const bool to_card = kind != CopyKind::kDeviceToHost;
  if (Covers(memory_, from, bytes) != from_card || Covers(memory_, to, bytes) != to_card) {
    return {StatusCode::kInternal, "a copy from or to where it should not"};
  }
  auto& s = *static_cast<Stream*>(stream);
  Queue(s, static_cast<double>(bytes) / script_.bytes_per_us * 1e-3);
  std::memmove(to, from, bytes);
  const void* host = from_card ? to : from;
  if (from_card != to_card && !Covers(pinned_, host, bytes)) WaitFor(s.end_ns);
  return Status::Ok();
}

Status FakeCard::CopyRows(void* /*to*/, size_t /*to_step*/, const void* /*from*/,
                          size_t /*from_step*/, size_t /*width*/, size_t /*rows*/,
                          NativeStream /*stream*/) const {
  return {StatusCode::kNotSupported, "nothing that measures copies rows"};
}

Status FakeCard::Fill(void* to, uint8_t value, size_t bytes, NativeStream stream) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  if (!Covers(memory_, to, bytes)) return {StatusCode::kInternal, "a fill of what is not mine"};
  // Large ones are for their time only.
  std::memset(to, value, bytes >= script_.cache_bytes ? 1 : bytes);
  stats_.filled_bytes += static_cast<double>(bytes);
  if (bytes >= script_.cache_bytes) cold_ = true;
  Queue(*static_cast<Stream*>(stream), static_cast<double>(bytes) / script_.bytes_per_us * 1e-3);
  return Status::Ok();
}

Result<NativeStream> FakeCard::CreateStream() const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  auto* stream = new Stream;
  stream->session = streams_.empty();  // the first is the session's
  if (stream->session) stream->end_ns = static_cast<int64_t>(script_.busy_ms * 1e6);
  streams_.insert(stream);
  ++stats_.streams;
  return static_cast<NativeStream>(stream);
}

void FakeCard::DestroyStream(NativeStream stream) const noexcept {
  const std::lock_guard lock(mutex_);
  if (hung_) ++stats_.freed_while_hung;
  auto* s = static_cast<Stream*>(stream);
  if (streams_.erase(s) == 0) std::abort();
  --stats_.streams;
  delete s;
}

Status FakeCard::Synchronize(NativeStream stream) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  WaitFor(static_cast<Stream*>(stream)->end_ns);
  return Status::Ok();
}

bool FakeCard::IsCapturing(NativeStream stream) const noexcept {
  return script_.capturing && static_cast<Stream*>(stream)->session;
}

Result<NativeEvent> FakeCard::CreateEvent() const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  auto* event = new Event;
  events_.insert(event);
  ++stats_.events;
  return static_cast<NativeEvent>(event);
}

void FakeCard::DestroyEvent(NativeEvent event) const noexcept {
  const std::lock_guard lock(mutex_);
  auto* e = static_cast<Event*>(event);
  if (events_.erase(e) == 0) std::abort();
  --stats_.events;
  delete e;
}

void FakeCard::GiveUpOn(NativeEvent event) const noexcept {
  const std::lock_guard lock(mutex_);
  auto* e = static_cast<Event*>(event);
  if (events_.count(e) == 0) std::abort();
  given_up_.push_back(e);
  ++stats_.given_up;
}

bool FakeCard::stuck() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(given_up_.begin(), given_up_.end(),
                     [this](const Event* event) { return now_ns_ < event->at_ns; });
}

Status FakeCard::RecordEvent(NativeEvent event, NativeStream stream) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  auto& s = *static_cast<Stream*>(stream);
  Queue(s, 0.0);
  static_cast<Event*>(event)->at_ns = std::max(s.end_ns, now_ns_);
  return Status::Ok();
}

Status FakeCard::WaitEvent(NativeStream stream, NativeEvent event) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  auto& s = *static_cast<Stream*>(stream);
  s.end_ns = std::max(s.end_ns, static_cast<Event*>(event)->at_ns);
  return Status::Ok();
}

Status FakeCard::QueryEvent(NativeEvent event, bool& done) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  now_ns_ += static_cast<int64_t>(script_.query_us * 1e3);
  done = now_ns_ >= static_cast<Event*>(event)->at_ns;
  return Status::Ok();
}

Status FakeCard::SynchronizeEvent(NativeEvent event) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  WaitFor(static_cast<Event*>(event)->at_ns);
  return Status::Ok();
}

Status FakeCard::ElapsedMs(NativeEvent begin, NativeEvent end, double& ms) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  const int64_t to = static_cast<Event*>(end)->at_ns;
  if (to > now_ns_) return {StatusCode::kInternal, "the event is not done"};
  const double ns = static_cast<double>(to - static_cast<Event*>(begin)->at_ns);
  const double step = script_.resolution_us * 1e3;
  ms = (step > 0.0 ? std::round(ns / step) * step : ns) * 1e-6;
  return Status::Ok();
}

Status FakeCard::CanLoadModules() const {
  return {StatusCode::kNotSupported, "a make-believe card runs no code"};
}

Result<NativeModule> FakeCard::LoadModule(std::span<const std::byte> /*code*/) const {
  return CanLoadModules();
}

Result<NativeFunction> FakeCard::FunctionOf(NativeModule /*module*/, const char* /*name*/) const {
  return CanLoadModules();
}

Status FakeCard::Launch(NativeFunction /*function*/, const LaunchShape& /*shape*/,
                        const void* /*args*/, NativeStream /*stream*/) const {
  return CanLoadModules();
}

Status FakeCard::Launch(NativeStream stream, double ms, double warm_ms, double host_ms) const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Lost(lost_);
  now_ns_ += static_cast<int64_t>(host_ms * 1e6);
  Queue(*static_cast<Stream*>(stream), cold_ ? ms : warm_ms);
  cold_ = false;
  return Status::Ok();
}

void FakeCard::Hang(NativeStream stream) const {
  const std::lock_guard lock(mutex_);
  static_cast<Stream*>(stream)->end_ns = kNever;
  hung_ = true;
}

void FakeCard::Lose(const std::string& why) const {
  const std::lock_guard lock(mutex_);
  if (lost_.empty()) lost_ = why;
}

int64_t FakeCard::NowNs() const {
  const std::lock_guard lock(mutex_);
  return now_ns_;
}

void FakeCard::Wait(double ms) const {
  const std::lock_guard lock(mutex_);
  now_ns_ += static_cast<int64_t>(ms * 1e6);
}

FakeCard::Stats FakeCard::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace tunableop::bindings
