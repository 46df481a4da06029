#include "backends/registry.h"

#include "backends/cpu/native_backend.h"

namespace tunableop {
namespace {

struct Registry {
  std::vector<std::shared_ptr<const Backend>> backends;
  std::vector<LibraryState> states;

  Registry() {
    auto native = MakeNativeBackend();
    LibraryState state;
    state.library = "native";
    if (native) {
      state.available = true;
      state.identity = native->identity();
      backends.push_back(std::move(native));
    } else {
      state.reason = "this processor has none of the instruction sets that the kernels need";
    }
    states.push_back(std::move(state));
  }
};

const Registry& Get() {
  static const Registry registry;
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
