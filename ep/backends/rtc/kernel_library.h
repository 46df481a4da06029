// The project's own kernels on one card: compiled when they are first asked for, and kept, in this
// process and on disk.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/rtc/code_cache.h"
#include "backends/rtc/compiler.h"
#include "gemm/device.h"
#include "gemm/status.h"

namespace tunableop {

// A kernel that is ready to be launched. Cheap to copy. Lives as long as the KernelLibrary that
// gave it.
class DeviceFunction {
 public:
  DeviceFunction() = default;  // of nothing: it cannot be launched
  DeviceFunction(const Device& device, NativeFunction function) noexcept
      : device_(&device), function_(function) {}

  explicit operator bool() const noexcept { return function_ != nullptr; }

  // As Device::Launch: `args` is the kernel's one struct. Takes no lock, allocates nothing.
  Status Launch(const LaunchShape& shape, const void* args, NativeStream stream) const {
    return device_->Launch(function_, shape, args, stream);
  }

 private:
  const Device* device_ = nullptr;
  NativeFunction function_ = nullptr;
};

// A family compiled for some types: what is compiled at once.
struct ModuleName {
  std::string family;
  std::string t0;  // "f16"; empty: the family has none
  std::string t1;
  bool operator==(const ModuleName&) const = default;
};

// Thread-safe. A module is compiled once however many ask for it at once. What a compiler or a
// driver refused, it refuses again in the same words; want of memory is no refusal.
class KernelLibrary {
 public:
  struct Settings {
    // The text of a family; empty: there is no such family.
    std::function<std::string_view(std::string_view family)> source;
    // Of CodeCache; empty: nothing is kept, and `why_no_folder`, if not empty, is told when that
    // first matters.
    std::string folder;
    std::string why_no_folder;
    // Lines for a person. Called from any thread, and must not throw.
    std::function<void(bool warning, const std::string& line)> log;
  };
  // Asks nothing of anybody. `settings.source` at least must be set.
  KernelLibrary(std::shared_ptr<const Device> device, Settings settings);
  ~KernelLibrary();  // nothing of it may be running any more
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  // Whether kernels can be compiled here at all; why not. Loads the compiler at the first call, and
  // makes nothing on the card.
  Status Available() const;
  // Where Available: "nvrtc 13.0 ..." and the file; else empty.
  std::string CompilerIdentity() const;
  std::string CompilerPath() const;

  // `entry` of the family compiled for these types ("f16"; empty: the family has none). Finds it in
  // this process, else in the code cache, else compiles, which takes up to seconds.
  // kNotSupported: cannot be compiled or loaded here. kNotFound: there is no such family or entry.
  Result<DeviceFunction> Get(std::string_view family, std::string_view t0, std::string_view t1,
                             const char* entry);
  // Makes modules ready that Get will be asked for, on as many threads at once: compiling is most
  // of the time that a machine's first session takes. Comes back when all are made or refused, with
  // what came of each. A mistake about what will be needed costs nothing but time.
  std::vector<Status> Prepare(std::span<const ModuleName> modules, size_t threads);

 private:
  struct Module {
    std::mutex mutex;
    NativeModule native = nullptr;
    std::map<std::string, NativeFunction, std::less<>> functions;
    Status refused;  // for good
  };
  struct Text;

  Module& Find(const ModuleName& name);
  // The module's lock is held.
  Status Make(const ModuleName& name, Module& module);
  Status Load(const Text& text, NativeModule* module);
  Status Compile(const Text& text, NativeModule* module);
  void Keep(const Text& text, const std::vector<std::byte>& code);
  void Say(bool warning, const std::string& line) const;

  const std::shared_ptr<const Device> device_;
  const Settings settings_;
  const CodeCache cache_;
  mutable std::once_flag looked_;
  mutable std::optional<Compiler> compiler_;
  mutable Status unavailable_;
  std::once_flag said_;  // that nothing can be written
  std::mutex mutex_;     // on the map
  std::map<std::string, std::unique_ptr<Module>, std::less<>> modules_;
};

}  // namespace tunableop
