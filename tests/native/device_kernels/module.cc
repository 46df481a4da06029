// The kernels of ep/kernels as functions of the host, on numpy arrays: with the arguments and the
// grid that the provider would give them. For tests only; an extension module of its own, for it
// needs no other room.
#include <pybind11/stl.h>

#include <array>
#include <vector>

#include "device_kernels/run.h"
#include "kernels/sources.h"

namespace py = pybind11;

namespace tunableop::device {

HostKernel KernelOf(const std::string& family, const std::string& t0, const std::string& t1,
                    const std::string& entry) {
  const HostKernel kernel = FindHostKernel(family, t0, t1, entry);
  if (kernel == nullptr) {
    throw py::key_error("no kernel " + family + " <" + t0 + ", " + t1 + "> " + entry);
  }
  return kernel;
}

uint32_t& ThreadsOfBlocks() {
  static uint32_t threads = 1;
  return threads;
}

DimsView DimsOf(const py::array& array) {
  static_assert(sizeof(py::ssize_t) == sizeof(int64_t));
  return {reinterpret_cast<const int64_t*>(array.shape()), static_cast<size_t>(array.ndim())};
}

}  // namespace tunableop::device

PYBIND11_MODULE(tunableop_device_kernels, module) {
  using namespace tunableop::device;
  module.doc() = "Kernels of cards, on the host.";
  module.def("names", [] {
    std::vector<std::array<std::string, 4>> names;
    for (const HostKernelName& name : HostKernelNames()) {
      names.push_back({std::string(name.family), std::string(name.t0), std::string(name.t1),
                       std::string(name.entry)});
    }
    return names;
  });
  module.def("source", [](const std::string& family) { return std::string(KernelSource(family)); });
  module.def("set_threads", [](uint32_t threads) { ThreadsOfBlocks() = threads; });
  BindCopies(module);
  BindElements(module);
  BindImages(module);
  BindLayers(module);
  BindMakes(module);
  BindPicks(module);
  BindRows(module);
}
