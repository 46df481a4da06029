#include "backends/gpu/runtime_device.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <utility>

namespace tunableop {
namespace {

constexpr int kNothing = -1;     // no card was current, or what was cannot be known
constexpr int kLostBefore = -1;  // no runtime has negative codes

// A child of fork has its parent's handles and none of its cards: no runtime of the vendors works
// there, not even to free something.
std::atomic<uint64_t> g_forks{0};
void CountFork() { g_forks.fetch_add(1, std::memory_order_relaxed); }
// Before any device is made: while the library is loaded.
const int g_registered = ::pthread_atfork(nullptr, nullptr, &CountFork);

}  // namespace

// The card is current, and what other threads capture is not disturbed, while this lives.
class RuntimeDevice::Scope {
 public:
  Scope(const RuntimeDevice& device, Capture capture) noexcept : device_(device) {
    code_ = device_.Enter(previous_);
    if (code_ != runtime_code::kSuccess || capture == Capture::kObey) return;
    // After Enter: changing the mode makes a context on the card that is current.
    mode_ = device_.IgnoreCaptures();
  }
  ~Scope() {
    device_.HeedCaptures(mode_);
    device_.Restore(previous_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  int code() const noexcept { return code_; }

 private:
  const RuntimeDevice& device_;
  int previous_ = kNothing;
  int code_ = runtime_code::kSuccess;
  int mode_ = kNothing;
};

RuntimeDevice::RuntimeDevice(const RuntimeApi& api, int ordinal, DeviceInfo info, ModuleApi modules)
    : api_(api),
      modules_(std::move(modules)),
      ordinal_(ordinal),
      info_(std::move(info)),
      forks_(g_forks.load()) {
  static_cast<void>(g_registered);
}

bool RuntimeDevice::lost() const noexcept {
  return lost_.load(std::memory_order_acquire) || forks_ != g_forks.load(std::memory_order_relaxed);
}

int RuntimeDevice::Enter(int& previous) const noexcept {
  if (api_.GetDevice(&previous) != runtime_code::kSuccess) previous = kNothing;
  if (previous == ordinal_) return runtime_code::kSuccess;
  return api_.SetDevice(ordinal_);
}

int RuntimeDevice::MakeCurrent() const noexcept {
  int previous = kNothing;
  const int code = Enter(previous);
  if (code != runtime_code::kSuccess) Note(code);
  return previous;
}

void RuntimeDevice::Restore(int previous) const noexcept {
  if (previous == kNothing || previous == ordinal_) return;
  if (api_.SetDevice(previous) != runtime_code::kSuccess) api_.GetLastError();
}

int RuntimeDevice::IgnoreCaptures() const noexcept {
  const auto exchange = api_.ThreadExchangeStreamCaptureMode;
  if (exchange == nullptr) return kNothing;
  int mode = runtime_code::kCaptureRelaxed;
  if (exchange(&mode) == runtime_code::kSuccess) return mode;
  api_.GetLastError();
  return kNothing;
}

void RuntimeDevice::HeedCaptures(int previous) const noexcept {
  if (previous != kNothing) api_.ThreadExchangeStreamCaptureMode(&previous);
}

template <typename Function, typename... Arguments>
int RuntimeDevice::Call(Capture capture, Function function, Arguments... arguments) const noexcept {
  if (lost()) return kLostBefore;
  const Scope scope(*this, capture);
  const int code = scope.code() == runtime_code::kSuccess ? function(arguments...) : scope.code();
  if (code != runtime_code::kSuccess) Note(code);
  return code;
}

template <typename Function>
int RuntimeDevice::CallInContext(Capture capture, const Function& function) const noexcept {
  const int code = Call(capture, function);
  if (code != runtime_code::kNoContext) return code;
  // A thread that never called anything that works on the card has the right card, and not yet its
  // context. This brings it, in every release, and does nothing else.
  Call(Capture::kIgnore, api_.Free, nullptr);
  return Call(capture, function);
}

void RuntimeDevice::Note(int code) const noexcept {
  if (code == kLostBefore) return;
  api_.GetLastError();
  if (!api_.IsFatal(code)) return;
  int none = 0;
  lost_code_.compare_exchange_strong(none, code);
  lost_.store(true, std::memory_order_release);
}

Status RuntimeDevice::Lost() const {
  if (forks_ != g_forks.load()) {
    return {StatusCode::kInternal, std::string(backend()) + ":" + std::to_string(ordinal_) +
                                       " cannot be used in a process that was forked after its "
                                       "driver was loaded"};
  }
  return {StatusCode::kInternal,
          std::string(backend()) + ":" + std::to_string(ordinal_) +
              " is lost until this process ends: " + api_.Words(lost_code_.load())};
}

Status RuntimeDevice::Check(int code, std::string_view what) const {
  if (code == runtime_code::kSuccess) return Status::Ok();
  if (code == kLostBefore) return Lost();
  StatusCode status = StatusCode::kInternal;
  if (code == runtime_code::kOutOfMemory) status = StatusCode::kOutOfMemory;
  if (code == runtime_code::kNoDevice || code == runtime_code::kInvalidDevice ||
      code == runtime_code::kInsufficientDriver) {
    status = StatusCode::kNotFound;
  }
  return {status, std::string(backend()) + ":" + std::to_string(ordinal_) + ": " +
                      std::string(what) + ": " + api_.Words(code)};
}

Result<void*> RuntimeDevice::Allocate(size_t bytes) const {
  void* memory = nullptr;
  // Of nothing the runtimes give null, which is an error to whoever reads it.
  const int code = Call(Capture::kIgnore, api_.Malloc, &memory, std::max<size_t>(bytes, 1));
  TUNABLEOP_RETURN_IF_ERROR(Check(code, "allocating " + std::to_string(bytes) + " bytes"));
  return memory;
}

void RuntimeDevice::Free(void* memory) const noexcept {
  if (memory != nullptr && !Keep({memory, false})) FreeNow({memory, false});
}

Result<void*> RuntimeDevice::AllocateHost(size_t bytes) const {
  void* memory = nullptr;
  const int code = Call(Capture::kIgnore, api_.HostMalloc, &memory, std::max<size_t>(bytes, 1),
                        runtime_code::kPortable);
  TUNABLEOP_RETURN_IF_ERROR(
      Check(code, "allocating " + std::to_string(bytes) + " page-locked bytes"));
  return memory;
}

void RuntimeDevice::FreeHost(void* memory) const noexcept {
  if (memory != nullptr && !Keep({memory, true})) FreeNow({memory, true});
}

void RuntimeDevice::FreeNow(const Kept& one) const noexcept {
  Call(Capture::kIgnore, one.of_host ? api_.HostFree : api_.Free, one.memory);
}

bool RuntimeDevice::Keep(const Kept& one) const noexcept {
  if (!stuck()) return false;
  const std::lock_guard lock(stuck_mutex_);
  if (given_up_.empty()) return false;
  try {
    kept_.push_back(one);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is lost to this process
  }
  return true;
}

void RuntimeDevice::GiveUpOn(NativeEvent event) const noexcept {
  if (event == nullptr) return;
  const std::lock_guard lock(stuck_mutex_);
  try {
    given_up_.push_back(event);
    stuck_.store(true, std::memory_order_release);
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): frees will wait
  }
}

bool RuntimeDevice::stuck() const noexcept {
  if (lost() || !stuck_.load(std::memory_order_acquire)) return false;
  std::vector<Kept> kept;
  {
    const std::lock_guard lock(stuck_mutex_);
    std::erase_if(given_up_, [this](NativeEvent event) {
      if (Call(Capture::kIgnore, api_.EventQuery, event) == runtime_code::kNotReady) return false;
      DestroyEvent(event);
      return true;
    });
    if (!given_up_.empty()) return true;
    stuck_.store(false, std::memory_order_release);
    kept.swap(kept_);
  }
  for (const Kept& one : kept) FreeNow(one);
  return false;
}

Status RuntimeDevice::MemoryInfo(size_t& free_bytes, size_t& total_bytes) const {
  return Check(Call(Capture::kIgnore, api_.MemGetInfo, &free_bytes, &total_bytes),
               "asking how much memory is free");
}

Status RuntimeDevice::Copy(void* to, const void* from, size_t bytes, CopyKind kind,
                           NativeStream stream) const {
  if (bytes == 0) return Status::Ok();
  int native = runtime_code::kDeviceToDevice;
  const char* what = "copying on the card";
  if (kind == CopyKind::kHostToDevice) {
    native = runtime_code::kHostToDevice;
    what = "copying to the card";
  } else if (kind == CopyKind::kDeviceToHost) {
    native = runtime_code::kDeviceToHost;
    what = "copying from the card";
  }
  return Check(Call(Capture::kObey, api_.MemcpyAsync, to, from, bytes, native, stream), what);
}

Status RuntimeDevice::CopyRows(void* to, size_t to_step, const void* from, size_t from_step,
                               size_t width, size_t rows, NativeStream stream) const {
  if (width == 0 || rows == 0) return Status::Ok();
  return Check(Call(Capture::kObey, api_.Memcpy2DAsync, to, to_step, from, from_step, width, rows,
                    runtime_code::kDeviceToDevice, stream),
               "copying rows on the card");
}

Status RuntimeDevice::Fill(void* to, uint8_t value, size_t bytes, NativeStream stream) const {
  if (bytes == 0) return Status::Ok();
  return Check(Call(Capture::kObey, api_.MemsetAsync, to, static_cast<int>(value), bytes, stream),
               "filling memory");
}

Result<NativeStream> RuntimeDevice::CreateStream() const {
  NativeStream stream = nullptr;
  const int code =
      Call(Capture::kIgnore, api_.StreamCreateWithFlags, &stream, runtime_code::kNonBlocking);
  TUNABLEOP_RETURN_IF_ERROR(Check(code, "making a stream"));
  return stream;
}

void RuntimeDevice::DestroyStream(NativeStream stream) const noexcept {
  if (stream != nullptr) Call(Capture::kIgnore, api_.StreamDestroy, stream);
}

Status RuntimeDevice::Synchronize(NativeStream stream) const {
  return Check(Call(Capture::kIgnore, api_.StreamSynchronize, stream), "waiting for a stream");
}

bool RuntimeDevice::IsCapturing(NativeStream stream) const noexcept {
  int status = runtime_code::kCaptureNone;
  const int code = Call(Capture::kObey, api_.StreamIsCapturing, stream, &status);
  // Of the legacy stream the runtimes do not tell, but complain, while another one is captured.
  if (code != runtime_code::kSuccess) {
    return code >= runtime_code::kFirstOfCapture && code <= runtime_code::kLastOfCapture;
  }
  return status != runtime_code::kCaptureNone;
}

Result<NativeEvent> RuntimeDevice::CreateEvent() const {
  NativeEvent event = nullptr;
  const int code = Call(Capture::kIgnore, api_.EventCreateWithFlags, &event, 0U);
  TUNABLEOP_RETURN_IF_ERROR(Check(code, "making an event"));
  return event;
}

void RuntimeDevice::DestroyEvent(NativeEvent event) const noexcept {
  if (event != nullptr) Call(Capture::kIgnore, api_.EventDestroy, event);
}

Status RuntimeDevice::RecordEvent(NativeEvent event, NativeStream stream) const {
  return Check(Call(Capture::kObey, api_.EventRecord, event, stream), "recording an event");
}

Status RuntimeDevice::WaitEvent(NativeStream stream, NativeEvent event) const {
  return Check(Call(Capture::kObey, api_.StreamWaitEvent, stream, event, 0U),
               "letting a stream wait for an event");
}

Status RuntimeDevice::QueryEvent(NativeEvent event, bool& done) const {
  const int code = Call(Capture::kIgnore, api_.EventQuery, event);
  done = code == runtime_code::kSuccess;
  if (code == runtime_code::kNotReady) return Status::Ok();
  return Check(code, "asking whether an event has happened");
}

Status RuntimeDevice::SynchronizeEvent(NativeEvent event) const {
  return Check(Call(Capture::kIgnore, api_.EventSynchronize, event), "waiting for an event");
}

Status RuntimeDevice::ElapsedMs(NativeEvent begin, NativeEvent end, double& ms) const {
  float elapsed = 0.0F;
  TUNABLEOP_RETURN_IF_ERROR(
      Check(Call(Capture::kIgnore, api_.EventElapsedTime, &elapsed, begin, end),
            "asking for the time between two events"));
  ms = elapsed;
  return Status::Ok();
}

Status RuntimeDevice::CanLoadModules() const {
  if (modules_.complete()) return Status::Ok();
  return {StatusCode::kNotSupported, modules_.missing()};
}

Result<NativeModule> RuntimeDevice::LoadModule(std::span<const std::byte> code) const {
  TUNABLEOP_RETURN_IF_ERROR(CanLoadModules());
  NativeModule module = nullptr;
  const int result =
      CallInContext(Capture::kIgnore, [&] { return modules_.LoadData(&module, code.data()); });
  Status status = Check(result, "loading code");
  if (modules_.IsUnfit(result)) {
    return Status(StatusCode::kNotSupported, std::string(status.message()));
  }
  TUNABLEOP_RETURN_IF_ERROR(std::move(status));
  return module;
}

void RuntimeDevice::UnloadModule(NativeModule module) const noexcept {
  // It waits for the card, and would for ever.
  if (module == nullptr || stuck()) return;
  CallInContext(Capture::kIgnore, [&] { return modules_.Unload(module); });
}

Result<NativeFunction> RuntimeDevice::FunctionOf(NativeModule module, const char* name) const {
  TUNABLEOP_RETURN_IF_ERROR(CanLoadModules());
  NativeFunction function = nullptr;
  const int result = CallInContext(Capture::kIgnore,
                                   [&] { return modules_.GetFunction(&function, module, name); });
  Status status = Check(result, std::string("looking for the kernel ") + name);
  if (result == runtime_code::kSymbolNotFound) {
    return Status(StatusCode::kNotFound, std::string(status.message()));
  }
  TUNABLEOP_RETURN_IF_ERROR(std::move(status));
  return function;
}

Status RuntimeDevice::Launch(NativeFunction function, const LaunchShape& shape, const void* args,
                             NativeStream stream) const {
  void* parameters[] = {const_cast<void*>(args)};
  const int code = CallInContext(Capture::kObey, [&] {
    return modules_.Launch(function, shape.grid_x, shape.grid_y, shape.grid_z, shape.block, 1, 1,
                           shape.shared_bytes, stream, parameters, nullptr);
  });
  return Check(code, "launching a kernel");
}

}  // namespace tunableop
