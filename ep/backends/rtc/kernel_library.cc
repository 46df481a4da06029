#include "backends/rtc/kernel_library.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <system_error>
#include <thread>
#include <utility>

namespace tunableop {
namespace {

using Clock = std::chrono::steady_clock;

std::string MsSince(Clock::time_point begin) {
  const std::chrono::duration<double, std::milli> ms = Clock::now() - begin;
  return std::to_string(std::lround(ms.count())) + " ms";
}

std::string WordsOf(const ModuleName& name) {
  std::string words = name.family;
  for (const std::string& type : {name.t0, name.t1}) {
    if (!type.empty()) words.append(" ").append(type);
  }
  return words;
}

Status Copy(const Status& status) { return {status.code(), std::string(status.message())}; }

}  // namespace

// A module to be made.
struct KernelLibrary::Text {
  std::string name;  // "binary f32 i64"
  std::string file;  // "binary-f32-i64-sm_90"
  std::string_view source;
  std::vector<std::string> options;
  CodeDigest digest;
};

KernelLibrary::KernelLibrary(std::shared_ptr<const Device> device, Settings settings)
    : device_(std::move(device)), settings_(std::move(settings)), cache_(settings_.folder) {}

KernelLibrary::~KernelLibrary() {
  for (const auto& [name, module] : modules_) device_->UnloadModule(module->native);
}

void KernelLibrary::Say(bool warning, const std::string& line) const {
  if (settings_.log) settings_.log(warning, line);
}

Status KernelLibrary::Available() const {
  std::call_once(looked_, [this] {
    unavailable_ = device_->CanLoadModules();
    if (!unavailable_.ok()) return;
    Result<Compiler> found = Compiler::Find(*device_);
    if (found.ok()) {
      compiler_.emplace(std::move(found).value());
    } else {
      unavailable_ = found.TakeStatus();
    }
  });
  if (compiler_.has_value()) return Status::Ok();
  return {StatusCode::kNotSupported,
          "kernels cannot be compiled: " + std::string(unavailable_.message())};
}

std::string KernelLibrary::CompilerIdentity() const {
  return Available().ok() ? compiler_->identity() : "";
}

std::string KernelLibrary::CompilerPath() const {
  return Available().ok() ? compiler_->path() : "";
}

KernelLibrary::Module& KernelLibrary::Find(const ModuleName& name) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Module>& place = modules_[WordsOf(name)];
  if (place == nullptr) place = std::make_unique<Module>();
  return *place;
}

Status KernelLibrary::Make(const ModuleName& name, Module& module) {
  if (!module.refused.ok()) return Copy(module.refused);
  if (module.native != nullptr) return Status::Ok();
  Text text;
  text.name = WordsOf(name);
  text.source = settings_.source(name.family);
  if (text.source.empty()) {
    return {StatusCode::kNotFound, "there is no family of kernels '" + name.family + "'"};
  }
  std::vector<std::string> macros;
  if (!name.t0.empty()) macros.push_back("TUNABLEOP_T0=" + name.t0);
  if (!name.t1.empty()) macros.push_back("TUNABLEOP_T1=" + name.t1);
  text.options = compiler_->Options(macros);
  text.file = text.name + " " + device_->info().arch;
  for (char& c : text.file) c = c == ' ' || c == '/' ? '-' : c;
  text.digest.Add(compiler_->identity());
  for (const std::string& option : text.options) text.digest.Add(option);
  text.digest.Add(text.source);
  Status status = Load(text, &module.native);
  if (status.code() == StatusCode::kNotSupported) module.refused = Copy(status);
  return status;
}

Result<DeviceFunction> KernelLibrary::Get(std::string_view family, std::string_view t0,
                                          std::string_view t1, const char* entry) {
  TUNABLEOP_RETURN_IF_ERROR(Available());
  const ModuleName name{std::string(family), std::string(t0), std::string(t1)};
  Module& module = Find(name);
  const std::lock_guard lock(module.mutex);
  TUNABLEOP_RETURN_IF_ERROR(Make(name, module));
  if (const auto known = module.functions.find(entry); known != module.functions.end()) {
    return DeviceFunction(*device_, known->second);
  }
  Result<NativeFunction> function = device_->FunctionOf(module.native, entry);
  if (!function.ok()) {
    Status status = function.TakeStatus();
    return Status(status.code(), WordsOf(name) + ": " + std::string(status.message()));
  }
  module.functions.emplace(entry, function.value());
  return DeviceFunction(*device_, function.value());
}

std::vector<Status> KernelLibrary::Prepare(std::span<const ModuleName> modules, size_t threads) {
  std::vector<Status> made(modules.size());
  if (!Available().ok()) {
    for (Status& status : made) status = Available();
    return made;
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < modules.size(); i = next++) {
      Module& module = Find(modules[i]);
      const std::lock_guard lock(module.mutex);
      made[i] = Make(modules[i], module);
    }
  };
  std::vector<std::jthread> helpers;  // this thread is one of them
  const size_t count = std::min(threads, modules.size());
  try {
    while (helpers.size() + 1 < count) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): fewer do it, then
  }
  work();
  helpers.clear();  // joins them
  return made;
}

Status KernelLibrary::Load(const Text& text, NativeModule* module) {
  const Clock::time_point begin = Clock::now();
  const std::optional<std::vector<std::byte>> code = cache_.Read(text.file, text.digest);
  if (!code.has_value()) return Compile(text, module);
  Result<NativeModule> loaded = device_->LoadModule(*code);
  if (loaded.ok()) {
    *module = loaded.value();
    Say(false, "read " + text.name + " for " + device_->info().arch + " in " + MsSince(begin));
    return Status::Ok();
  }
  // Whole, and still not what this card takes: it is as one that is damaged.
  if (loaded.status().code() == StatusCode::kNotSupported) return Compile(text, module);
  return loaded.TakeStatus();
}

Status KernelLibrary::Compile(const Text& text, NativeModule* module) {
  const Clock::time_point begin = Clock::now();
  Result<std::vector<std::byte>> code = compiler_->Compile(text.name, text.source, text.options);
  if (!code.ok()) return code.TakeStatus();
  const std::string took = MsSince(begin);
  Result<NativeModule> loaded = device_->LoadModule(code.value());
  if (!loaded.ok()) {
    Status status = loaded.TakeStatus();
    return {status.code(), text.name + ": " + std::string(status.message())};
  }
  *module = loaded.value();
  Say(false, "compiled " + text.name + " for " + device_->info().arch + " in " + took + " (" +
                 compiler_->identity() + ")");
  Keep(text, code.value());
  return Status::Ok();
}

void KernelLibrary::Keep(const Text& text, const std::vector<std::byte>& code) {
  const Status status = cache_.Write(text.file, text.digest, code);
  const std::string why = status.ok() ? settings_.why_no_folder : std::string(status.message());
  if (why.empty()) return;
  std::call_once(said_, [&] {
    Say(true, "compiled kernels cannot be kept, so each process compiles its own: " + why +
                  " (TUNABLEOP_KERNEL_CACHE names another folder, or off)");
  });
}

}  // namespace tunableop
