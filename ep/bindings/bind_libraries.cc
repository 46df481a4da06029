// What a process can compute with, and on which machine.
#include <string>
#include <vector>

#include "backends/cpu/openblas_library.h"
#include "backends/gpu/devices.h"
#include "backends/registry.h"
#include "backends/rtc/code_cache.h"
#include "backends/rtc/compiler.h"
#include "bindings/bindings.h"
#include "cache/fingerprint.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

py::dict ToDict(const LibraryState& state) {
  py::dict entry;
  entry["library"] = state.library;
  entry["available"] = state.available;
  entry["identity"] = state.identity;
  entry["path"] = state.path;
  entry["reason"] = state.reason;
  return entry;
}

py::list ToList(const std::vector<LibraryState>& states) {
  py::list list;
  for (const LibraryState& state : states) list.append(ToDict(state));
  return list;
}

// CUDA and HIP give 12080 and 60342133 for 12.8 and 6.3.42133.
std::string Version(const Device& device, int number) {
  if (number <= 0) return "not known";
  if (device.backend() == "cuda") {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  }
  return std::to_string(number / 10'000'000) + "." + std::to_string(number / 100'000 % 100) + "." +
         std::to_string(number % 100'000);
}

py::list Cards() {
  py::list list;
  for (const Gpu& gpu : Gpus()) {
    const Device& device = *gpu.device;
    const DeviceInfo& info = device.info();
    py::dict entry;
    entry["backend"] = std::string(device.backend());
    entry["ordinal"] = device.ordinal();
    entry["name"] = info.name;
    entry["arch"] = info.arch;
    entry["pci_bus_id"] = info.pci_bus_id;
    entry["compute_units"] = info.compute_units;
    entry["memory_bytes"] = info.memory_bytes;
    entry["driver"] = Version(device, info.driver_version);
    entry["runtime"] = Version(device, info.runtime_version);
    py::dict libraries;
    for (const std::shared_ptr<const Backend>& backend : gpu.backends) {
      if (!WhyNot(*backend).empty()) continue;
      libraries[py::str(std::string(backend->library()))] = backend->identity();
    }
    entry["libraries"] = std::move(libraries);
    entry["reason"] = WhyUnusable(gpu);
    list.append(std::move(entry));
  }
  return list;
}

std::string WhyCardIsUnusable(const std::string& backend, int ordinal) {
  for (const Gpu& gpu : Gpus()) {
    if (gpu.device->backend() == backend && gpu.device->ordinal() == ordinal) {
      return WhyUnusable(gpu);
    }
  }
  return {};
}

// What compiles kernels for a card at run time. Loads it, which is not for whoever lists the cards.
py::dict CompilerOf(const std::string& backend, int ordinal) {
  LibraryState state;
  state.library = backend == "cuda" ? "libnvrtc" : "libhiprtc";
  state.reason = "there is no such card";
  for (const Gpu& gpu : Gpus()) {
    if (gpu.device->backend() != backend || gpu.device->ordinal() != ordinal) continue;
    const Status modules = gpu.device->CanLoadModules();
    const Result<Compiler> compiler = modules.ok()
                                          ? Compiler::Find(*gpu.device)
                                          : Status(modules.code(), std::string(modules.message()));
    state.available = compiler.ok();
    state.reason = compiler.ok() ? "" : compiler.status().message();
    if (!compiler.ok()) continue;
    state.identity = compiler.value().identity();
    state.path = compiler.value().path();
  }
  return ToDict(state);
}

// Where compiled kernels are kept; nothing: they are not.
std::string KernelCacheFolder() {
  const Result<std::string> folder = CodeCache::DefaultFolder();
  return folder.ok() ? folder.value() : "";
}

}  // namespace

py::dict ToDict(const Fingerprint& f) {
  py::dict d;
  d["device"] = f.device;
  d["model"] = f.model;
  d["features"] = f.features;
  d["cores"] = f.cores;
  return d;
}

void BindLibraries(py::module_& module) {
  module.def("libraries", [] { return ToList(CpuLibraries()); });
  module.def("gpus", &Cards);
  module.def("why_card_is_unusable", &WhyCardIsUnusable, py::arg("backend"), py::arg("ordinal"));
  module.def("kernel_compiler", &CompilerOf, py::arg("backend"), py::arg("ordinal"));
  module.def("kernel_cache_folder", &KernelCacheFolder);
  module.def("gpu_libraries", [] { return ToList(GpuLibraries()); });
  module.def("set_openblas_search_path", &SetOpenBlasSearchPath, py::arg("path"));
  module.def("cpu_fingerprint", [] { return ToDict(CpuFingerprint()); });
}

}  // namespace tunableop::bindings
