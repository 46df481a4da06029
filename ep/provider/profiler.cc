#include "provider/profiler.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "provider/guard.h"
#include "provider/ort_runtime.h"
#include "tuner/clock.h"

namespace tunableop {
namespace {

using OwnedEvent = std::unique_ptr<OrtProfilingEvent, void (*)(OrtProfilingEvent*)>;

constexpr size_t kEventsAtOnce = 1024;

int32_t ThreadId() noexcept { return static_cast<int32_t>(syscall(SYS_gettid)); }

// ONNX Runtime's own clock is not ours: it says how long ago its profile began, and times are
// counted from there.
class Profiler final : public OrtEpProfilerImpl {
 public:
  explicit Profiler(std::shared_ptr<ProfilerSink> sink)
      : OrtEpProfilerImpl{}, sink_(std::move(sink)) {
    ort_version_supported = Ort().version;
    Release = &ReleaseImpl;
    StartProfiling = &StartProfilingImpl;
    StartEvent = nullptr;  // the events of ONNX Runtime itself are not looked at
    StopEvent = nullptr;
    EndProfiling = &EndProfilingImpl;
  }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

 private:
  ~Profiler() {
    if (!watching_) return;
    try {
      static_cast<void>(sink_->EndWatch(started_ns_));
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for events that nobody asks for
    }
  }

  static void ReleaseImpl(OrtEpProfilerImpl* self) noexcept { delete static_cast<Profiler*>(self); }

  static OrtStatus* StartProfilingImpl(OrtEpProfilerImpl* self, int64_t offset_ns) noexcept {
    auto& profiler = *static_cast<Profiler*>(self);
    profiler.started_ns_ = SteadyNow();
    profiler.offset_ns_ = offset_ns;
    if (!profiler.watching_) profiler.sink_->Watch();
    profiler.watching_ = true;
    return nullptr;
  }

  static OrtStatus* EndProfilingImpl(OrtEpProfilerImpl* self,
                                     OrtProfilingEventsContainer* container) noexcept {
    return Guard([&]() -> Status {
      auto& profiler = *static_cast<Profiler*>(self);
      if (!profiler.watching_) return Status::Ok();
      profiler.watching_ = false;
      return profiler.Deliver(profiler.sink_->EndWatch(profiler.started_ns_), container);
    });
  }

  Status Deliver(const ProfilerSink::Events& events, OrtProfilingEventsContainer* container) const {
    std::vector<OwnedEvent> owned;
    std::vector<const OrtProfilingEvent*> raw;
    for (size_t first = 0; first < events.events.size(); first += kEventsAtOnce) {
      owned.clear();
      raw.clear();
      const size_t last = std::min(events.events.size(), first + kEventsAtOnce);
      for (size_t i = first; i < last; ++i) {
        Result<OwnedEvent> event = Make(events.events[i]);
        if (!event.ok()) return event.TakeStatus();
        raw.push_back(event.value().get());
        owned.push_back(std::move(event).value());
      }
      TUNABLEOP_RETURN_IF_ORT_ERROR(
          Ort().ep_api->ProfilingEventsContainer_AddEvents(container, raw.data(), raw.size()));
    }
    if (events.dropped == 0) return Status::Ok();
    const std::string dropped = std::to_string(events.dropped);
    const std::array<Argument, 1> arguments = {{{"calls", dropped}}};
    Result<OwnedEvent> note =
        Make("TunableOp: too many calls, the later ones are not here",
             OrtProfilingEventCategory_SESSION, ThreadId(), SteadyNow(), 0, arguments);
    if (!note.ok()) return note.TakeStatus();
    const OrtProfilingEvent* pointer = note.value().get();
    return FromOrt(Ort().ep_api->ProfilingEventsContainer_AddEvents(container, &pointer, 1));
  }

  struct Argument {
    const char* key;
    std::string value;
  };

  Result<OwnedEvent> Make(const GemmEvent& event) const {
    const Problem& problem = event.problem;
    const std::array<Argument, 7> arguments = {{{"m", std::to_string(problem.m)},
                                                {"n", std::to_string(problem.n)},
                                                {"k", std::to_string(problem.k)},
                                                {"batch", std::to_string(problem.batch)},
                                                {"problem", ToString(problem)},
                                                {"hit", event.hit ? "1" : "0"},
                                                {"library", event.kernel.library}}};
    return Make(event.kernel.FullName(), OrtProfilingEventCategory_KERNEL, event.thread,
                event.start_ns, event.duration_ns, arguments);
  }

  template <size_t kCount>
  Result<OwnedEvent> Make(const std::string& name, OrtProfilingEventCategory category,
                          int32_t thread, int64_t start_ns, int64_t duration_ns,
                          const std::array<Argument, kCount>& arguments) const {
    std::array<const char*, kCount> keys{};
    std::array<const char*, kCount> values{};
    for (size_t i = 0; i < kCount; ++i) {
      keys[i] = arguments[i].key;
      values[i] = arguments[i].value.c_str();
    }
    const int64_t timestamp_us = (offset_ns_ + start_ns - started_ns_) / 1000;
    OrtProfilingEvent* raw = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->CreateProfilingEvent(
        category, static_cast<int32_t>(getpid()), thread, name.c_str(), timestamp_us,
        duration_ns / 1000, keys.data(), values.data(), kCount, &raw));
    return OwnedEvent(raw, Ort().ep_api->ReleaseProfilingEvent);
  }

  const std::shared_ptr<ProfilerSink> sink_;
  bool watching_ = false;
  int64_t offset_ns_ = 0;   // from ONNX Runtime's beginning of the profile to started_ns_
  int64_t started_ns_ = 0;  // SteadyNow()
};

}  // namespace

void ProfilerSink::Add(const Problem& problem, const Candidate& kernel, int64_t start_ns,
                       int64_t duration_ns, bool hit) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!enabled()) return;  // the last profile ended while the call ran
    if (events_.size() < kMaxEvents) {
      events_.push_back({problem, kernel, start_ns, duration_ns, hit, ThreadId()});
    } else {
      ++dropped_;
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for an event; the profile lacks it
  }
}

void ProfilerSink::Watch() noexcept {
  const std::lock_guard lock(mutex_);
  watchers_.fetch_add(1, std::memory_order_relaxed);
}

ProfilerSink::Events ProfilerSink::EndWatch(int64_t since_ns) {
  Events result;
  const std::lock_guard lock(mutex_);
  const bool last = watchers_.fetch_sub(1, std::memory_order_relaxed) == 1;
  result.dropped = dropped_;
  if (last) {
    result.events = std::exchange(events_, {});
    std::erase_if(result.events, [&](const GemmEvent& e) { return e.start_ns < since_ns; });
    dropped_ = 0;
    return result;
  }
  for (const GemmEvent& event : events_) {
    if (event.start_ns >= since_ns) result.events.push_back(event);
  }
  return result;
}

OrtEpProfilerImpl* MakeProfiler(std::shared_ptr<ProfilerSink> sink) {
  return new Profiler(std::move(sink));
}

}  // namespace tunableop
