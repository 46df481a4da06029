// The control interface of the provider library (provider/control.h), reached through dlopen: the
// library that ONNX Runtime loaded is the one that holds the sessions, so this module must not have
// its own copy.
#include <dlfcn.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "cache/crash_journal.h"
#include "gemm/status.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

using ControlFunction = int (*)(const char*, const char*, char**);
using FreeFunction = void (*)(char*);

struct Transfer {
  void* card;
  void* host;
  size_t bytes;
};
using ReplayFunction = int (*)(const char*, int, const Transfer*, size_t, const Transfer*, size_t,
                               char**);

struct Library {
  ControlFunction call = nullptr;
  FreeFunction free_reply = nullptr;
  ReplayFunction replay = nullptr;
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
  library.replay = reinterpret_cast<ReplayFunction>(dlsym(handle, "TunableOpReplay"));
  if (library.call == nullptr || library.free_reply == nullptr || library.replay == nullptr) {
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

// Buffers of a captured graph on the card, in the order in which arrays are given.
class GraphCall {
 public:
  GraphCall(const std::string& path, std::string token, int id, std::vector<uintptr_t> in,
            std::vector<uintptr_t> out)
      : library_(Open(path)),
        token_(std::move(token)),
        id_(id),
        in_(std::move(in)),
        out_(std::move(out)) {}

  // False: there is no graph now.
  bool Run(const std::vector<py::array>& in, const std::vector<py::array>& out) const {
    const std::vector<Transfer> ins = Transfers(in_, in);
    const std::vector<Transfer> outs = Transfers(out_, out);
    char* raw = nullptr;
    int code = 0;
    {
      const py::gil_scoped_release release;
      code = library_.replay(token_.c_str(), id_, ins.data(), ins.size(), outs.data(), outs.size(),
                             &raw);
    }
    const std::unique_ptr<char, FreeFunction> reply(raw, library_.free_reply);
    if (code == static_cast<int>(StatusCode::kNotFound)) return false;
    if (code != 0) ThrowIfError(Status(static_cast<StatusCode>(code), raw != nullptr ? raw : ""));
    return true;
  }

 private:
  static std::vector<Transfer> Transfers(const std::vector<uintptr_t>& card,
                                         const std::vector<py::array>& arrays) {
    if (arrays.size() != card.size()) throw py::value_error("expected one array for each buffer");
    std::vector<Transfer> all;
    all.reserve(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      const py::array& array = arrays[i];
      if ((array.flags() & py::array::c_style) == 0) {
        throw py::value_error("expected arrays that are contiguous");
      }
      const auto bytes = static_cast<size_t>(array.nbytes());
      if (bytes == 0) continue;
      all.push_back({reinterpret_cast<void*>(card[i]), const_cast<void*>(array.data()), bytes});
    }
    return all;
  }

  const Library library_;
  const std::string token_;
  const int id_;
  const std::vector<uintptr_t> in_;
  const std::vector<uintptr_t> out_;
};

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
  py::class_<GraphCall>(module, "GraphCall", "Launches one captured graph of a session.")
      .def(py::init<const std::string&, std::string, int, std::vector<uintptr_t>,
                    std::vector<uintptr_t>>(),
           py::arg("library_path"), py::arg("token"), py::arg("id"), py::arg("inputs"),
           py::arg("outputs"))
      .def(
          "run", &GraphCall::Run, py::arg("inputs"), py::arg("outputs"),
          "Copies in, launches, copies out; the arrays have the sizes of the buffers. False: there "
          "is no graph now.");
  module.def("watch_journal", &Watch, py::arg("cache"), py::arg("pid"),
             "What a measuring process that uses `cache` is calling; None: it holds no journal.");
  module.def("last_call", &LastCallOf, py::arg("cache"), py::arg("pid"),
             "What a process that is dead was calling; None: nothing. Leaves its journal.");
}

}  // namespace tunableop::bindings
