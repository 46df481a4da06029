#include "backends/cpu/openblas_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace tunableop::cpu {
namespace {

struct SearchPath {
  std::mutex mutex;
  std::string path;
};

SearchPath& GetSearchPath() {
  static auto& search = *new SearchPath;  // never destroyed, as the registry
  return search;
}

std::string LastLoaderError() {
  const char* error = dlerror();
  return error != nullptr ? error : "unknown loader error";
}

template <typename Function>
Function Find(void* handle, const std::string& name) {
  return reinterpret_cast<Function>(dlsym(handle, name.c_str()));
}

// "OpenBLAS 0.3.34 NO_AFFINITY ..." -> "0.3.34".
std::string VersionIn(std::string_view config) {
  constexpr std::string_view kLead = "OpenBLAS ";
  const size_t start = config.find(kLead);
  if (start == std::string_view::npos) return "unknown";
  config.remove_prefix(start + kLead.size());
  return std::string(config.substr(0, config.find(' ')));
}

// The file that the loader found.
std::string PathOf(const void* symbol, const std::string& fallback) {
  Dl_info info = {};
  if (dladdr(symbol, &info) != 0 && info.dli_fname != nullptr) return info.dli_fname;
  return fallback;
}

Result<OpenBlasLibrary> Bind(void* handle, const std::string& name) {
  // The wheel scipy-openblas32 puts "scipy_" before every symbol.
  for (const std::string prefix : {"scipy_", ""}) {
    OpenBlasLibrary library;
    library.sgemm = Find<OpenBlasLibrary::Sgemm>(handle, prefix + "cblas_sgemm");
    if (library.sgemm == nullptr) continue;
    const auto set_threads = Find<void (*)(int)>(handle, prefix + "openblas_set_num_threads");
    const auto config = Find<char* (*)()>(handle, prefix + "openblas_get_config");
    const auto core = Find<char* (*)()>(handle, prefix + "openblas_get_corename");
    const auto missing = [&](const char* symbol) {
      return Status(StatusCode::kNotFound, name + " has no symbol " + prefix + symbol);
    };
    if (set_threads == nullptr) return missing("openblas_set_num_threads");
    if (config == nullptr) return missing("openblas_get_config");
    if (core == nullptr) return missing("openblas_get_corename");
    const std::string_view built = config();
    if (built.find("USE64BITINT") != std::string_view::npos) {
      return Status(StatusCode::kNotSupported, name + " was built with 64-bit integers");
    }
    library.version = VersionIn(built);
    library.core = core();
    library.path = PathOf(reinterpret_cast<const void*>(library.sgemm), name);
    set_threads(1);
    return library;
  }
  return Status(StatusCode::kNotFound, name + " has no symbol cblas_sgemm");
}

Result<OpenBlasLibrary> Open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status(StatusCode::kNotFound, LastLoaderError());
  Result<OpenBlasLibrary> library = Bind(handle, name);
  // A library in use is never unloaded: it may have threads.
  if (!library.ok()) dlclose(handle);
  return library;
}

}  // namespace

Result<OpenBlasLibrary> LoadOpenBlas() {
  std::vector<std::string> names;
  const char* chosen = std::getenv("TUNABLEOP_OPENBLAS_LIBRARY");
  if (chosen != nullptr && *chosen != '\0') {
    names.emplace_back(chosen);
  } else {
    std::string path;
    {
      const std::lock_guard lock(GetSearchPath().mutex);
      path = GetSearchPath().path;
    }
    if (!path.empty()) {
      if (path.find(".so") == std::string::npos) path += "/libscipy_openblas.so";
      names.push_back(std::move(path));
    }
  }
  // Not the system's libopenblas.so.0: numpy may use that very library, and setting it to one
  // thread would slow the user's own code.
  std::string reasons =
      names.empty() ? "not installed (pip install onnxruntime-ep-tunableop[openblas])" : "";
  for (const std::string& name : names) {
    Result<OpenBlasLibrary> library = Open(name);
    if (library.ok()) return library;
    if (!reasons.empty()) reasons += "; ";
    reasons += library.status().message();
  }
  return Status(StatusCode::kNotFound, std::move(reasons));
}

}  // namespace tunableop::cpu

namespace tunableop {

void SetOpenBlasSearchPath(std::string path) {
  auto& search = cpu::GetSearchPath();
  const std::lock_guard lock(search.mutex);
  search.path = std::move(path);
}

}  // namespace tunableop
