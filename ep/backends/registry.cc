#include "backends/registry.h"

#include <utility>

#include "backends/cpu/native_backend.h"
#include "backends/cpu/openblas_backend.h"
#include "backends/cpu/openblas_library.h"
#include "backends/external/external_backend.h"
#include "backends/external/external_library.h"

namespace tunableop {
namespace {

class Registry {
 public:
  // The first library that is present gives the default kernel.
  Registry() {
    AddNative();
    AddOpenBlas();
    for (const std::string& path : external::CandidateLibraryPaths()) AddExternal(path);
  }

  std::vector<std::shared_ptr<const Backend>> backends;
  std::vector<LibraryState> states;

 private:
  void Add(std::shared_ptr<const Backend> backend, std::string path) {
    LibraryState state;
    state.library = backend->library();
    state.available = true;
    state.identity = backend->identity();
    state.path = std::move(path);
    states.push_back(std::move(state));
    backends.push_back(std::move(backend));
  }

  void AddMissing(std::string library, std::string reason) {
    LibraryState state;
    state.library = std::move(library);
    state.reason = std::move(reason);
    states.push_back(std::move(state));
  }

  void AddNative() {
    if (auto native = MakeNativeBackend()) {
      Add(std::move(native), "");
    } else {
      AddMissing("native", "this processor has none of the instruction sets that the kernels need");
    }
  }

  void AddOpenBlas() {
    if (backends.empty()) {
      AddMissing("openblas", "not used without the native kernels, which apply its epilogues");
      return;
    }
    Result<cpu::OpenBlasLibrary> library = cpu::LoadOpenBlas();
    if (!library.ok()) {
      AddMissing("openblas", std::string(library.status().message()));
      return;
    }
    std::string path = library.value().path;
    Add(MakeOpenBlasBackend(std::move(library).value()), std::move(path));
  }

  // What is missing is known by its path: a library that cannot be loaded has no other name.
  void AddExternal(const std::string& path) {
    if (backends.empty()) {
      AddMissing(path, "not used without the native kernels, which give the default");
      return;
    }
    Result<external::ExternalLibrary> library = external::LoadExternalLibrary(path);
    if (!library.ok()) {
      AddMissing(path, std::string(library.status().message()));
      return;
    }
    const std::string& name = library.value().name;
    for (const LibraryState& state : states) {
      if (state.library != name) continue;
      AddMissing(path, "there is a library '" + name + "' already");
      return;
    }
    Add(MakeExternalBackend(std::move(library).value()), path);
  }
};

const Registry& Get() {
  // Never destroyed: at the end of a process sessions may still run on other threads.
  static const auto& registry = *new Registry;
  return registry;
}

}  // namespace

std::span<const std::shared_ptr<const Backend>> CpuBackends() { return Get().backends; }

std::vector<LibraryState> CpuLibraries() { return Get().states; }

std::shared_ptr<const Backend> FindCpuBackend(std::string_view library) {
  for (const auto& backend : Get().backends) {
    if (backend->library() == library) return backend;
  }
  return nullptr;
}

}  // namespace tunableop
