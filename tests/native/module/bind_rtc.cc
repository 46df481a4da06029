// Kernels compiled at run time, for tests.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/rtc/code_cache.h"
#include "backends/rtc/compiler.h"
#include "backends/rtc/kernel_library.h"
#include "gemm/device.h"
#include "kernels/binary_launch.h"
#include "kernels/sources.h"
#include "module/module.h"

namespace py = pybind11;

namespace tunableop::bindings::rtc {

template <typename T>
T Taken(Result<T> result) {
  if (!result.ok()) ThrowIfError(result.TakeStatus());
  return std::move(result).value();
}

inline uintptr_t Number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
inline void* Address(uintptr_t number) { return reinterpret_cast<void*>(number); }

// A KernelLibrary with the lines that it logged.
class Library {
 public:
  Library(const std::shared_ptr<const Device>& device, std::string folder,
          std::vector<std::pair<std::string, std::string>> sources, std::string why_no_folder)
      : sources_(std::move(sources)),
        library_(device, {.source = [this](std::string_view family) { return Source(family); },
                          .folder = std::move(folder),
                          .why_no_folder = std::move(why_no_folder),
                          .log =
                              [this](bool warning, const std::string& line) {
                                const std::lock_guard lock(mutex_);
                                lines_.emplace_back(warning, line);
                              }}) {}

  KernelLibrary& get() { return library_; }
  std::vector<std::pair<bool, std::string>> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::string_view Source(std::string_view family) const {
    for (const auto& [name, source] : sources_) {
      if (name == family) return source;
    }
    return device::KernelSource(family);
  }

  const std::vector<std::pair<std::string, std::string>> sources_;
  std::mutex mutex_;
  std::vector<std::pair<bool, std::string>> lines_;
  KernelLibrary library_;
};

// The kernel "scale" of the simulated family "sim": y = factor * x, as a launch of `shape`.
inline void LaunchScale(const Device& device, uintptr_t function, uintptr_t x, uintptr_t y,
                        int64_t count, double factor, uintptr_t stream,
                        std::pair<uint32_t, uint32_t> shape, bool fresh_thread) {
  struct {
    const void* x;
    void* y;
    int64_t count;
    double factor;
  } const args{Address(x), Address(y), count, factor};
  Status status;
  const auto launch = [&] {
    status = device.Launch(Address(function), {.grid_x = shape.first, .block = shape.second}, &args,
                           Address(stream));
  };
  if (fresh_thread) {
    std::thread(launch).join();
  } else {
    launch();
  }
  ThrowIfError(status);
}

// As many threads at once ask for the same kernel: the messages of those that got none.
inline std::vector<std::string> GetAtOnce(Library& library, const std::string& family,
                                          const std::string& t0, const std::string& entry,
                                          int threads) {
  std::vector<std::thread> pool;
  std::mutex mutex;
  std::vector<std::string> failures;
  std::atomic<int> waiting{threads};
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      const Result<DeviceFunction> got = library.get().Get(family, t0, "", entry.c_str());
      if (got.ok()) return;
      const std::lock_guard lock(mutex);
      failures.emplace_back(got.status().message());
    });
  }
  for (std::thread& thread : pool) thread.join();
  return failures;
}

inline void BindModules(py::module_& module) {
  module.def("can_load_modules",
             [](const std::shared_ptr<Device>& device) { ThrowIfError(device->CanLoadModules()); });
  module.def("load_module", [](const std::shared_ptr<Device>& device, const py::bytes& code) {
    const std::string text(code);
    return Number(Taken(device->LoadModule(std::as_bytes(std::span(text)))));
  });
  module.def("unload_module", [](const std::shared_ptr<Device>& device, uintptr_t loaded) {
    device->UnloadModule(Address(loaded));
  });
  module.def("function_of",
             [](const std::shared_ptr<Device>& device, uintptr_t loaded, const std::string& name) {
               return Number(Taken(device->FunctionOf(Address(loaded), name.c_str())));
             });
  module.def(
      "launch_scale",
      [](const std::shared_ptr<Device>& device, uintptr_t function, uintptr_t x, uintptr_t y,
         int64_t count, double factor, uintptr_t stream, std::pair<uint32_t, uint32_t> shape,
         bool fresh_thread) {
        LaunchScale(*device, function, x, y, count, factor, stream, shape, fresh_thread);
      },
      py::arg("device"), py::arg("function"), py::arg("x"), py::arg("y"), py::arg("count"),
      py::arg("factor"), py::arg("stream") = 0, py::arg("shape") = std::pair(4U, 32U),
      py::arg("fresh_thread") = false);
}

inline void BindCompiler(py::module_& module) {
  py::class_<Compiler>(module, "Compiler")
      .def(py::init(
          [](const std::shared_ptr<Device>& device) { return Taken(Compiler::Find(*device)); }))
      .def_property_readonly("identity", &Compiler::identity)
      .def_property_readonly("path", &Compiler::path)
      .def("options", &Compiler::Options)
      .def("compile", [](const Compiler& self, const std::string& name, const std::string& source,
                         const std::vector<std::string>& options) {
        std::optional<Result<std::vector<std::byte>>> code;
        {
          const py::gil_scoped_release released;
          code = self.Compile(name, source, options);
        }
        const std::vector<std::byte> bytes = Taken(std::move(*code));
        return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      });
}

inline CodeDigest DigestOf(const std::vector<std::string>& texts) {
  CodeDigest digest;
  for (const std::string& text : texts) digest.Add(text);
  return digest;
}

inline void BindCodeCache(py::module_& module) {
  module.def("code_cache_folder", [] { return Taken(CodeCache::DefaultFolder()); });
  module.def("code_digest",
             [](const std::vector<std::string>& texts) { return DigestOf(texts).Hex(); });
  py::class_<CodeCache>(module, "CodeCache")
      .def(py::init<std::string>())
      .def("read",
           [](const CodeCache& self, const std::string& name,
              const std::vector<std::string>& texts) -> std::optional<py::bytes> {
             const auto code = self.Read(name, DigestOf(texts));
             if (!code.has_value()) return std::nullopt;
             return py::bytes(reinterpret_cast<const char*>(code->data()), code->size());
           })
      .def("write", [](const CodeCache& self, const std::string& name,
                       const std::vector<std::string>& texts, const py::bytes& code) {
        const std::string bytes(code);
        ThrowIfError(self.Write(name, DigestOf(texts), std::as_bytes(std::span(bytes))));
      });
}

inline void BindLibrary(py::module_& module) {
  // The functions that it gives are those of the library: keep it.
  py::class_<DeviceFunction>(module, "DeviceFunction")
      .def("scale", [](const DeviceFunction& self, uintptr_t x, uintptr_t y, int64_t count,
                       double factor, uintptr_t stream) {
        struct {
          const void* x;
          void* y;
          int64_t count;
          double factor;
        } const args{Address(x), Address(y), count, factor};
        ThrowIfError(self.Launch({.grid_x = 4, .block = 64}, &args, Address(stream)));
      });
  // out = f(a, b) with float elements, by a kernel of the family "binary".
  module.def("launch_binary",
             [](const DeviceFunction& function, uintptr_t a, const std::vector<int64_t>& a_dims,
                uintptr_t b, const std::vector<int64_t>& b_dims, uintptr_t out, uintptr_t stream) {
               const auto prepared = device::PrepareBinary(Address(a), a_dims, Address(b), b_dims,
                                                           Address(out), 4, 4);
               if (!prepared.has_value()) throw py::value_error("they do not broadcast");
               const device::Grid& grid = prepared->grid;
               ThrowIfError(function.Launch({grid.x, grid.y, grid.z, grid.block, grid.shared_bytes},
                                            &prepared->args, Address(stream)));
             });
  py::class_<Library>(module, "KernelLibrary")
      .def(py::init([](const std::shared_ptr<Device>& device, std::string folder,
                       std::vector<std::pair<std::string, std::string>> sources,
                       std::string why_no_folder) {
             return std::make_unique<Library>(device, std::move(folder), std::move(sources),
                                              std::move(why_no_folder));
           }),
           py::arg("device"), py::arg("folder"), py::arg("sources"), py::arg("why_no_folder") = "")
      .def_property_readonly("lines", &Library::lines)
      .def("available", [](Library& self) { ThrowIfError(self.get().Available()); })
      .def_property_readonly("compiler",
                             [](Library& self) { return self.get().CompilerIdentity(); })
      .def(
          "get",
          [](Library& self, const std::string& family, const std::string& t0, const std::string& t1,
             const std::string& entry) {
            return Taken(self.get().Get(family, t0, t1, entry.c_str()));
          },
          py::arg("family"), py::arg("t0"), py::arg("t1"), py::arg("entry"), py::keep_alive<0, 1>())
      .def(
          "prepare",
          [](Library& self,
             const std::vector<std::tuple<std::string, std::string, std::string>>& names,
             size_t threads) {
            std::vector<ModuleName> modules;
            for (const auto& [family, t0, t1] : names) modules.push_back({family, t0, t1});
            std::vector<std::string> words;
            const py::gil_scoped_release released;
            for (const Status& status : self.get().Prepare(modules, threads)) {
              words.emplace_back(status.message());
            }
            return words;
          },
          py::arg("modules"), py::arg("threads"), "Of each what refused it, or nothing.")
      .def("get_at_once", &GetAtOnce, py::call_guard<py::gil_scoped_release>());
}

}  // namespace tunableop::bindings::rtc

namespace tunableop::bindings {

void BindRtc(py::module_& module) {
  rtc::BindModules(module);
  rtc::BindCompiler(module);
  rtc::BindCodeCache(module);
  rtc::BindLibrary(module);
}

}  // namespace tunableop::bindings
