// What a process can compute with, and on which machine.
#include "backends/cpu/openblas_library.h"
#include "backends/registry.h"
#include "bindings/bindings.h"
#include "cache/fingerprint.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

py::list Libraries() {
  py::list list;
  for (const LibraryState& state : CpuLibraries()) {
    py::dict entry;
    entry["library"] = state.library;
    entry["available"] = state.available;
    entry["identity"] = state.identity;
    entry["path"] = state.path;
    entry["reason"] = state.reason;
    list.append(std::move(entry));
  }
  return list;
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
  module.def("libraries", &Libraries);
  module.def("set_openblas_search_path", &SetOpenBlasSearchPath, py::arg("path"));
  module.def("cpu_fingerprint", [] { return ToDict(CpuFingerprint()); });
}

}  // namespace tunableop::bindings
