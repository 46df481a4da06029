// The control interface of the provider library (provider/control.h), reached through dlopen: the
// library that ONNX Runtime loaded is the one that holds the sessions, so this module must not have
// its own copy.
#include <dlfcn.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "cache/crash_journal.h"
#include "gemm/status.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

using ControlFunction = int (*)(const char*, const char*, char**);
using FreeFunction = void (*)(char*);

struct Library {
  ControlFunction call = nullptr;
  FreeFunction free_reply = nullptr;
};

// Loading the same file again yields the same library. It stays loaded: sessions point into it.
Library Open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    ThrowIfError(
        Status(StatusCode::kNotFound, "cannot load '" + path + "': " + (why ? why : "unknown")));
  }
  Library library;
  library.call = reinterpret_cast<ControlFunction>(dlsym(handle, "TunableOpControl"));
  library.free_reply = reinterpret_cast<FreeFunction>(dlsym(handle, "TunableOpControlFree"));
  if (library.call == nullptr || library.free_reply == nullptr) {
    ThrowIfError(
        Status(StatusCode::kInternal, "'" + path + "' is not this package's provider library"));
  }
  return library;
}

std::string Control(const std::string& path, const std::string& method,
                    const std::string& arguments) {
  const Library library = Open(path);
  char* raw = nullptr;
  int code = 0;
  {
    const py::gil_scoped_release release;
    code = library.call(method.c_str(), arguments.c_str(), &raw);
  }
  const std::unique_ptr<char, FreeFunction> reply(raw, library.free_reply);
  const std::string text = raw != nullptr ? raw : "";
  if (code != 0) ThrowIfError(Status(static_cast<StatusCode>(code), text));
  return text;
}

py::dict ToDict(const Death& call) {
  py::dict d;
  d["library"] = call.library;
  d["kernel"] = call.kernel;
  d["problem"] = call.problem;
  return d;
}

std::optional<py::dict> Watch(const std::filesystem::path& cache, int64_t pid) {
  Result<Progress> progress = [&] {
    const py::gil_scoped_release release;
    return WatchJournal(cache, pid);
  }();
  if (!progress.ok()) return std::nullopt;
  py::dict d = ToDict(progress.value().current);
  d["in_call"] = progress.value().in_call;
  d["calls"] = progress.value().calls;
  return d;
}

std::optional<py::dict> LastCallOf(const std::filesystem::path& cache, int64_t pid) {
  Result<Death> call = LastCall(cache, pid);
  if (!call.ok()) return std::nullopt;
  return ToDict(call.value());
}

}  // namespace

void BindSession(py::module_& module) {
  module.def(
      "control", &Control, py::arg("library_path"), py::arg("method"), py::arg("arguments"),
      "Asks the provider library; arguments and answer are JSON. Raises as ThrowIfError does.");
  module.def("watch_journal", &Watch, py::arg("cache"), py::arg("pid"),
             "What a measuring process that uses `cache` is calling; None: it holds no journal.");
  module.def("last_call", &LastCallOf, py::arg("cache"), py::arg("pid"),
             "What a process that is dead was calling; None: nothing. Leaves its journal.");
}

}  // namespace tunableop::bindings
