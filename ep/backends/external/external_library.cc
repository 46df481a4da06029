#include "backends/external/external_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "backends/external/external_backend.h"

namespace tunableop::external {
namespace {

constexpr uint32_t kMostKernels = 4096;  // more is a number that was never set

struct Unload {
  void operator()(void* handle) const noexcept { dlclose(handle); }
};

bool IsLibraryName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::string SizeAndTime(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return "unknown file";
  return std::to_string(info.st_size) + "." + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

Result<ExternalLibrary> Bind(void* handle, const std::string& path) {
  const auto get = reinterpret_cast<TunableOpGetCandidateLibraryFunction>(
      dlsym(handle, TUNABLEOP_GET_CANDIDATE_LIBRARY));
  if (get == nullptr) {
    return Status(StatusCode::kNotFound, path + " has no symbol " TUNABLEOP_GET_CANDIDATE_LIBRARY);
  }
  const TunableOpCandidateLibrary* functions = get();
  const auto wrong = [&](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, path + ": " + what);
  };
  if (functions == nullptr) return wrong("it gives no functions");
  if (functions->abi != TUNABLEOP_CANDIDATE_ABI) {
    return Status(StatusCode::kNotSupported,
                  path + " was built for version " + std::to_string(functions->abi) +
                      " of candidate_library.h, expected " +
                      std::to_string(TUNABLEOP_CANDIDATE_ABI) + ": compile it again");
  }
  if (functions->name == nullptr || !IsLibraryName(functions->name)) {
    return wrong("expected a name of a-z, 0-9, '_' and '-'");
  }
  if (functions->identity == nullptr) return wrong("it has no identity");
  if (functions->kernel_name == nullptr || functions->supports == nullptr ||
      functions->run == nullptr) {
    return wrong("one of kernel_name, supports and run is missing");
  }
  if (functions->kernel_count > kMostKernels) {
    return wrong("expected at most " + std::to_string(kMostKernels) + " kernels, found " +
                 std::to_string(functions->kernel_count));
  }
  ExternalLibrary library;
  library.functions = functions;
  library.name = functions->name;
  library.identity = std::string(functions->identity) + "+" + SizeAndTime(path);
  library.path = path;
  for (uint32_t i = 0; i < functions->kernel_count; ++i) {
    const char* name = functions->kernel_name(i);
    if (name == nullptr || *name == '\0' || std::string_view(name).ends_with(kRowsSuffix)) {
      return wrong("kernel " + std::to_string(i) + " has no name, or one that ends in " +
                   std::string(kRowsSuffix));
    }
    if (std::find(library.kernels.begin(), library.kernels.end(), name) != library.kernels.end()) {
      return wrong("two kernels are named " + std::string(name));
    }
    library.kernels.emplace_back(name);
  }
  return library;
}

}  // namespace

std::vector<std::string> CandidateLibraryPaths() {
  std::vector<std::string> paths;
  const char* value = std::getenv("TUNABLEOP_CANDIDATE_LIBRARIES");
  std::string_view rest = value != nullptr ? value : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end != 0) paths.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return paths;
}

Result<ExternalLibrary> LoadExternalLibrary(const std::string& path) {
  std::unique_ptr<void, Unload> handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) {
    const char* why = dlerror();
    return Status(StatusCode::kNotFound, why != nullptr ? why : path + " cannot be loaded");
  }
  Result<ExternalLibrary> library = Bind(handle.get(), path);
  if (library.ok()) {
    [[maybe_unused]] void* const kept = handle.release();  // in use until the process ends
  }
  return library;
}

}  // namespace tunableop::external
